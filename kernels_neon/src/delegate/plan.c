// SPDX-License-Identifier: Apache-2.0
#include "plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../kernels/reject.h"
#include "crc32.h"
#include "utf8.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are read in place");
_Static_assert(sizeof(ed_plan_subgraph) == 40 && sizeof(ed_plan_backend) == 8 && sizeof(ed_plan_option) == 16 &&
                   sizeof(ed_plan_partition) == 16 && sizeof(ed_plan_op) == 32,
               "sizes of the records in the document");

enum { VERSION = 1, MOST_BYTES = 1 << 28 };

typedef struct {
  char magic[8];
  uint32_t version, size, subgraphs, backends, options, partitions, ops, string_bytes;
} header;

typedef struct {
  uint32_t reserved, crc;
} trailer;

_Static_assert(sizeof(header) == 40 && sizeof(trailer) == 8, "sizes in the document");

typedef struct {
  const ed_plan *plan;
  uint32_t string_bytes;
  char *error;
  size_t error_bytes;
} check;

#define REFUSE(...) return ed_reject(c->error, c->error_bytes, __VA_ARGS__)

static bool is_text(const check *c, uint32_t text) {
  return text < c->string_bytes && ed_is_utf8(c->plan->strings + text);
}

static bool is_optional_text(const check *c, uint32_t text) {
  return text == ED_NONE || is_text(c, text);
}

// The first of `count` records of `record_bytes` bytes, ascending by the number at `first`, that is not below `value`.
static uint32_t lower_bound(const uint32_t *first, size_t record_bytes, uint32_t count, uint64_t value) {
  uint32_t low = 0, high = count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2, found;
    memcpy(&found, (const char *)first + middle * record_bytes, sizeof found);
    if (found < value)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static const ed_plan_partition *partition_of(const ed_plan *plan, uint32_t id) {
  const ed_plan_partition *all = plan->partitions;
  uint32_t at = lower_bound(&all->id, sizeof *all, plan->partitions_count, id);
  return at < plan->partitions_count && all[at].id == id ? &all[at] : NULL;
}

static bool is_subgraph(const ed_plan *plan, uint32_t index) {
  const ed_plan_subgraph *all = plan->subgraphs;
  uint32_t at = lower_bound(&all->index, sizeof *all, plan->subgraphs_count, index);
  return at < plan->subgraphs_count && all[at].index == index;
}

static bool check_backends(const check *c) {
  const ed_plan *plan = c->plan;
  for (uint32_t i = 0; i < plan->backends_count; i++) {
    const ed_plan_backend *backend = &plan->backends[i];
    if (!is_text(c, backend->name) || !is_optional_text(c, backend->library))
      REFUSE("back end %u names a text that is not there", i);
  }
  for (uint32_t i = 0; i < plan->options_count; i++) {
    const ed_plan_option *option = &plan->options[i];
    if (option->reserved || option->backend >= plan->backends_count) REFUSE("option %u has no back end", i);
    if (!is_text(c, option->key) || !is_text(c, option->value)) REFUSE("option %u has a text that is not there", i);
    if (!i || option[-1].backend < option->backend) continue;
    if (option[-1].backend > option->backend ||
        strcmp(plan->strings + option[-1].key, plan->strings + option->key) >= 0)
      REFUSE("option %u is out of order", i);
  }
  return true;
}

static bool check_partitions(const check *c) {
  const ed_plan *plan = c->plan;
  for (uint32_t i = 0; i < plan->subgraphs_count; i++) {
    if (plan->subgraphs[i].reserved || (i && plan->subgraphs[i - 1].index >= plan->subgraphs[i].index))
      REFUSE("subgraphs are not in ascending order");
  }
  for (uint32_t i = 0; i < plan->partitions_count; i++) {
    const ed_plan_partition *partition = &plan->partitions[i];
    if (partition->reserved || (i && partition[-1].id >= partition->id))
      REFUSE("partitions are not in ascending order");
    if (!is_subgraph(plan, partition->subgraph)) REFUSE("partition %u is in no listed subgraph", partition->id);
    if (!is_text(c, partition->delegate)) REFUSE("partition %u has no delegate", partition->id);
  }
  return true;
}

static bool check_op(const check *c, const ed_plan_op *op) {
  const ed_plan *plan = c->plan;
  const ed_plan_partition *home = partition_of(plan, op->partition);
  if (op->index > INT32_MAX) REFUSE("op %u:%u has no such index", op->subgraph, op->index);
  if (!home || home->subgraph != op->subgraph)
    REFUSE("op %u:%u is in no partition of its subgraph", op->subgraph, op->index);
  bool folded = ed_is_folded(op);
  if ((op->backend == ED_NONE) != folded || (op->kernel == ED_NONE) != folded || (op->layout == ED_NONE) != folded ||
      (folded && op->variant != ED_NONE))
    REFUSE("op %u:%u has some of segment, back end, kernel and layout, not all", op->subgraph, op->index);
  if (!folded && op->backend >= plan->backends_count) REFUSE("op %u:%u has no back end", op->subgraph, op->index);
  if (!is_optional_text(c, op->kernel) || !is_optional_text(c, op->variant) || !is_optional_text(c, op->layout))
    REFUSE("op %u:%u names a text that is not there", op->subgraph, op->index);
  return true;
}

static int compare_keys(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static bool check_no_op_twice(const check *c) {
  const ed_plan *plan = c->plan;
  uint64_t *keys = malloc((plan->ops_count + 1u) * sizeof *keys);
  if (!keys) REFUSE("no memory");
  for (uint32_t i = 0; i < plan->ops_count; i++) keys[i] = (uint64_t)plan->ops[i].subgraph << 32 | plan->ops[i].index;
  qsort(keys, plan->ops_count, sizeof *keys, compare_keys);
  bool once = true;
  for (uint32_t i = 1; i < plan->ops_count; i++) once &= keys[i - 1] != keys[i];
  free(keys);
  if (!once) REFUSE("an op is listed twice");
  return true;
}

// Folded ops come first in a partition: as a segment, none is the lowest.
static bool is_before(const ed_plan_op *a, const ed_plan_op *b) {
  return a->partition < b->partition || (a->partition == b->partition && a->segment + 1 <= b->segment + 1);
}

static bool check_ops(const check *c) {
  const ed_plan *plan = c->plan;
  uint32_t running = 0;  // partitions with an op that runs
  for (uint32_t i = 0; i < plan->ops_count; i++) {
    const ed_plan_op *op = &plan->ops[i];
    if (!check_op(c, op)) return false;
    if (i && !is_before(op - 1, op)) REFUSE("ops are not in the order of their partitions and segments");
    bool is_last = i + 1 == plan->ops_count || op[1].partition != op->partition;
    running += is_last && !ed_is_folded(op);
  }
  if (running != plan->partitions_count) REFUSE("a partition runs no op");
  return check_no_op_twice(c);
}

bool ed_plan_parse(ed_plan *plan, void *bytes, size_t size, char *error, size_t error_bytes) {
  check checked = {plan, 0, error, error_bytes}, *c = &checked;
  const header *head = bytes;
  if (size < sizeof *head + sizeof(trailer)) REFUSE("%zu bytes are too few for a plan.edp", size);
  if (memcmp(head->magic, "EDGEPLAN", sizeof head->magic)) REFUSE("not a plan.edp");
  if (head->version != VERSION) REFUSE("version %u, this library reads version %d", head->version, VERSION);
  if (head->size != size) REFUSE("%zu bytes, its header says %u; copy it again", size, head->size);
  const trailer *tail = (const void *)((const char *)bytes + size - sizeof *tail);
  if (size % 8 || ed_crc32(bytes, size - sizeof tail->crc) != tail->crc)
    REFUSE("wrong checksum, the file is damaged; copy it again");
  uint64_t options = sizeof *head + (uint64_t)head->subgraphs * sizeof *plan->subgraphs +
                     (uint64_t)head->backends * sizeof *plan->backends;
  uint64_t partitions = options + (uint64_t)head->options * sizeof *plan->options;
  uint64_t ops = partitions + (uint64_t)head->partitions * sizeof *plan->partitions;
  uint64_t strings = ops + (uint64_t)head->ops * sizeof *plan->ops;
  if (strings + head->string_bytes + sizeof *tail != size || head->string_bytes % 8 || tail->reserved)
    REFUSE("its tables do not fill the file");
  const char *base = bytes;
  const void *subgraphs = base + sizeof *head;
  *plan = (ed_plan){
      .bytes = bytes,
      .subgraphs_count = head->subgraphs,
      .backends_count = head->backends,
      .options_count = head->options,
      .partitions_count = head->partitions,
      .ops_count = head->ops,
      .subgraphs = subgraphs,
      .backends = (const void *)((const ed_plan_subgraph *)subgraphs + head->subgraphs),
      .options = (const void *)(base + options),
      .partitions = (const void *)(base + partitions),
      .ops = (const void *)(base + ops),
      .strings = base + strings,
  };
  c->string_bytes = head->string_bytes;
  if (c->string_bytes && plan->strings[c->string_bytes - 1]) REFUSE("its last text does not end");
  return check_backends(c) && check_partitions(c) && check_ops(c);
}

static void *read_all(FILE *file, size_t *size) {
  if (fseek(file, 0, SEEK_END)) return NULL;
  long length = ftell(file);
  if (length < 0 || length > MOST_BYTES || fseek(file, 0, SEEK_SET)) return NULL;
  void *bytes = malloc((size_t)length + 1);
  if (bytes && fread(bytes, 1, (size_t)length, file) != (size_t)length) {
    free(bytes);
    return NULL;
  }
  *size = (size_t)length;
  return bytes;
}

bool ed_plan_read(ed_plan *plan, const char *path, char *error, size_t error_bytes) {
  *plan = (ed_plan){0};
  FILE *file = fopen(path, "rbe");
  if (!file) return ed_reject(error, error_bytes, "plan=%s: %s", path, strerror(errno));
  size_t size = 0;
  void *bytes = read_all(file, &size);
  fclose(file);
  if (!bytes) return ed_reject(error, error_bytes, "plan=%s: cannot be read", path);
  char reason[256];
  if (ed_plan_parse(plan, bytes, size, reason, sizeof reason)) return true;
  free(bytes);
  *plan = (ed_plan){0};
  return ed_reject(error, error_bytes, "plan=%s: %s", path, reason);
}

void ed_plan_free(ed_plan *plan) {
  free(plan->bytes);
  *plan = (ed_plan){0};
}

const char *ed_plan_text(const ed_plan *plan, uint32_t text) {
  return text == ED_NONE ? NULL : plan->strings + text;
}

uint32_t ed_plan_ops(const ed_plan *plan, uint32_t partition, uint32_t *first) {
  uint64_t id = plan->partitions[partition].id;
  *first = lower_bound(&plan->ops->partition, sizeof *plan->ops, plan->ops_count, id);
  return lower_bound(&plan->ops->partition, sizeof *plan->ops, plan->ops_count, id + 1) - *first;
}

uint32_t ed_plan_backend_of(const ed_plan *plan, uint32_t partition) {
  uint32_t first, count = ed_plan_ops(plan, partition, &first);
  return plan->ops[first + count - 1].backend;  // folded ops come first, and no partition has nothing else
}

bool ed_plan_switches_xnnpack(const ed_plan *plan) {
  for (uint32_t i = 0; i < plan->options_count; i++) {
    const ed_plan_option *option = &plan->options[i];
    if (!strcmp(ed_plan_text(plan, plan->backends[option->backend].name), "cpu") &&
        !strcmp(ed_plan_text(plan, option->key), "xnnpack") && !strcmp(ed_plan_text(plan, option->value), "switch"))
      return true;
  }
  return false;
}
