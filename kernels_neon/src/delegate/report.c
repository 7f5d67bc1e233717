// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../kernels/reject.h"
#include "text.h"

static bool has_op(const ed_claimed *claimed, int op) {
  for (size_t i = 0; i < claimed->made_count; i++)
    for (int k = 0; k < claimed->made[i].count; k++)
      if (claimed->made[i].ops[k] == op) return true;
  return false;
}

bool ed_report_matches(const ed_delegate *delegate, uint32_t partition) {
  const ed_claimed *claimed = &delegate->claimed[partition];
  uint32_t first, count = ed_plan_ops(&delegate->plan, partition, &first);
  if (claimed->made_count != 1 || (uint32_t)claimed->made->count != count) return false;
  for (uint32_t i = first; i < first + count; i++)
    if (!has_op(claimed, (int)delegate->plan.ops[i].index)) return false;
  return true;
}

void ed_report_difference(const ed_delegate *delegate, uint32_t partition, char *line, size_t line_bytes) {
  const ed_plan *plan = &delegate->plan;
  const ed_claimed *claimed = &delegate->claimed[partition];
  uint32_t first, count = ed_plan_ops(plan, partition, &first);
  int *planned = calloc(2u * count + 1u, sizeof *planned), *left = planned + count;
  snprintf(line, line_bytes, "partition %u is not as planned", plan->partitions[partition].id);
  if (!planned) return;
  size_t left_count = 0;
  for (uint32_t i = 0; i < count; i++) {
    planned[i] = (int)plan->ops[first + i].index;
    if (!has_op(claimed, planned[i])) left[left_count++] = planned[i];
  }
  ed_text text = {0};
  ed_text_add(&text, "partition %u of subgraph %u: planned one delegate node of ops ", plan->partitions[partition].id,
              plan->partitions[partition].subgraph);
  ed_text_add_ranges(&text, planned, count);
  ed_text_add(&text, claimed->made_count ? "; got %zu: " : "; got none", claimed->made_count);
  for (size_t i = 0; i < claimed->made_count; i++) {
    ed_text_add(&text, i ? " and " : "");
    ed_text_add_ranges(&text, claimed->made[i].ops, (size_t)claimed->made[i].count);
  }
  if (claimed->made_count && left_count) {
    ed_text_add(&text, "; left to others: ");
    ed_text_add_ranges(&text, left, left_count);
  }
  if (!text.has_failed) snprintf(line, line_bytes, "%s", text.data);
  ed_text_free(&text);
  free(planned);
}

static void add_numbers(ed_text *text, const int *numbers, size_t count) {
  ed_text_add(text, "[");
  for (size_t i = 0; i < count; i++) ed_text_add(text, i ? ", %d" : "%d", numbers[i]);
  ed_text_add(text, "]");
}

static void add_nodes(ed_text *text, const ed_claimed *claimed) {
  ed_text_add(text, "\"delegate_nodes\": [");
  for (size_t i = 0; i < claimed->made_count; i++) {
    ed_text_add(text, i ? ", " : "");
    add_numbers(text, claimed->made[i].ops, (size_t)claimed->made[i].count);
  }
  ed_text_add(text, "]");
}

static void add_partition(ed_text *text, const ed_delegate *delegate, uint32_t partition) {
  const ed_plan *plan = &delegate->plan;
  const ed_claimed *claimed = &delegate->claimed[partition];
  uint32_t first, count = ed_plan_ops(plan, partition, &first);
  ed_text_add(text, "{\"id\": %u, \"subgraph\": %u, \"planned\": [", plan->partitions[partition].id,
              plan->partitions[partition].subgraph);
  for (uint32_t i = 0; i < count; i++) ed_text_add(text, i ? ", %u" : "%u", plan->ops[first + i].index);
  ed_text_add(text, "], ");
  add_nodes(text, claimed);
  ed_text_add(text, ", \"internal_bytes\": %zu}", claimed->internal_bytes);
}

// What the XNNPACK that the plan switched on took, subgraph by subgraph.
static void add_taken(ed_text *text, const ed_delegate *delegate) {
  for (uint32_t i = 0; i < delegate->plan.subgraphs_count; i++) {
    ed_text_add(text, "%s{\"subgraph\": %u, ", i ? ",\n  " : ", \"xnnpack\": [\n  ", delegate->plan.subgraphs[i].index);
    add_nodes(text, &delegate->taken[i]);
    ed_text_add(text, "}");
  }
  ed_text_add(text, "\n]");
}

static bool write_text(const ed_text *text, const char *path, const char *mode) {
  FILE *file = fopen(path, mode);
  if (!file) return false;
  bool is_written = fwrite(text->data, 1, text->size, file) == text->size;
  is_written &= !fclose(file);
  return is_written;
}

// A link, or what is no file, is written through: to replace it is not what was asked for.
static bool is_plain(const char *path) {
  struct stat found;
  return lstat(path, &found) || S_ISREG(found.st_mode);
}

// Exclusively: in a folder that all may write to, a link of that name would have any file written over.
static bool replace(const ed_text *text, const char *path) {
  static atomic_uint number;  // two interpreters of a process may write at once
  ed_text beside = {0};
  ed_text_add(&beside, "%s.%ld-%u.tmp", path, (long)getpid(), atomic_fetch_add(&number, 1));
  bool is_done = false;
  if (!beside.has_failed) {
    unlink(beside.data);
    is_done = write_text(text, beside.data, "wbxe") && !rename(beside.data, path);
    int why = errno;
    if (!is_done) unlink(beside.data);
    errno = why;
  }
  ed_text_free(&beside);
  return is_done;
}

bool ed_report_write(const ed_delegate *delegate, char *error, size_t error_bytes) {
  if (!delegate->options.report) return true;
  ed_text text = {0};
  ed_text_add(&text, "{\"schema\": \"edgedeploy.report/1\", \"partitions\": [");
  for (uint32_t i = 0; i < delegate->plan.partitions_count; i++) {
    ed_text_add(&text, i ? ",\n  " : "\n  ");
    add_partition(&text, delegate, i);
  }
  ed_text_add(&text, delegate->plan.partitions_count ? "\n]" : "]");
  if (ed_plan_switches_xnnpack(&delegate->plan)) add_taken(&text, delegate);
  ed_text_add(&text, "}\n");
  const char *path = delegate->options.report;
  errno = ENOMEM;
  bool is_written = !text.has_failed && (is_plain(path) ? replace(&text, path) : write_text(&text, path, "wbe"));
  if (!is_written) ed_reject(error, error_bytes, "report=%s: cannot be written: %s", path, strerror(errno));
  ed_text_free(&text);
  return is_written;
}
