// SPDX-License-Identifier: Apache-2.0
// The two functions that make an external delegate of this library.
#include "delegate.h"

#include <stdio.h>
#include <stdlib.h>

#include "../kernels/reject.h"
#include "claims.h"
#include "partition.h"
#include "stock.h"
#include "times.h"
#include "xnnpack.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT TfLiteDelegate *tflite_plugin_create_delegate(char **keys, char **values, size_t count,
                                                     void (*report)(const char *));
EXPORT void tflite_plugin_destroy_delegate(TfLiteDelegate *delegate);

TfLiteStatus ed_fail(TfLiteContext *context, const char *line) {
  context->ReportError(context, "edgedeploy: %s\n", line);
  return kTfLiteError;
}

int ed_delegate_threads(const ed_delegate *delegate, const TfLiteContext *context) {
  int threads = delegate->options.threads ? delegate->options.threads : context->recommended_num_threads;
  return threads < 1 ? 1 : threads > ED_MAX_THREADS ? ED_MAX_THREADS : threads;
}

static void close_delegate(ed_delegate *delegate) {
  if (delegate->claimed)
    for (uint32_t i = 0; i < delegate->plan.partitions_count; i++) ed_claimed_clear(&delegate->claimed[i]);
  if (delegate->taken)
    for (uint32_t i = 0; i < delegate->plan.subgraphs_count; i++) ed_claimed_clear(&delegate->taken[i]);
  if (delegate->stocks)
    for (uint32_t i = 0; i < delegate->plan.backends_count; i++) ed_stock_close(delegate->stocks[i]);
  ed_xnnpack_close(delegate->xnnpack);
  ed_times_close(delegate->times);
  ed_workshop_close(&delegate->shop);
  free(delegate->claimed);
  free(delegate->taken);
  free(delegate->stocks);
  free((char *)delegate->options.report);
  ed_plan_free(&delegate->plan);
  free(delegate);
}

static bool open_stock(ed_delegate *delegate, uint32_t partition, void (*report)(const char *), char *error) {
  uint32_t backend = ed_plan_backend_of(&delegate->plan, partition);
  ed_stock **stock = &delegate->stocks[backend];
  if (!*stock) *stock = ed_stock_open(&delegate->plan, backend, report, error, ED_LINE);
  if (!*stock) return false;
  // The runtime treats this delegate as it would treat that one.
  int64_t allows = kTfLiteDelegateFlagsAllowDynamicTensors, flags = ed_stock_flags(*stock);
  delegate->tflite.flags = ((delegate->tflite.flags | flags) & ~allows) | (delegate->tflite.flags & flags & allows);
  return true;
}

static bool open_delegate(ed_delegate *delegate, void (*report)(const char *), char *error) {
  const char *path = delegate->options.report;
  delegate->options.report = path ? strdup(path) : NULL;
  if (!ed_plan_read(&delegate->plan, delegate->options.plan, error, ED_LINE)) return false;
  delegate->options.plan = NULL;
  delegate->claimed = calloc(delegate->plan.partitions_count + 1u, sizeof *delegate->claimed);
  delegate->taken = calloc(delegate->plan.subgraphs_count + 1u, sizeof *delegate->taken);
  delegate->stocks = calloc(delegate->plan.backends_count + 1u, sizeof(ed_stock *));
  if (delegate->options.times) delegate->times = ed_times_open(&delegate->tflite);
  if (!delegate->claimed || !delegate->taken || !delegate->stocks || (path && !delegate->options.report) ||
      (delegate->options.times && !delegate->times))
    return ed_reject(error, ED_LINE, "no memory");
  delegate->tflite =
      (TfLiteDelegate){.data_ = delegate, .Prepare = ed_claim, .flags = kTfLiteDelegateFlagsAllowDynamicTensors};
  for (uint32_t i = 0; i < delegate->plan.partitions_count; i++) {
    bool is_runnable = ed_is_own(delegate, i) ? ed_partition_check(delegate, i, error, ED_LINE)
                                              : open_stock(delegate, i, report, error);
    if (!is_runnable) return false;
  }
  return true;
}

TfLiteDelegate *tflite_plugin_create_delegate(char **keys, char **values, size_t count, void (*report)(const char *)) {
  char error[ED_LINE] = "no memory", line[ED_LINE + 16];
  ed_delegate *delegate = calloc(1, sizeof *delegate);
  if (delegate) {
    ed_workshop_open(&delegate->shop);
    if (!ed_options_parse(&delegate->options, keys, values, count, error, sizeof error))
      delegate->options.report = NULL;  // not ours to free yet
    else if (open_delegate(delegate, report, error))
      return &delegate->tflite;
    close_delegate(delegate);
  }
  snprintf(line, sizeof line, "edgedeploy: %s", error);
  if (report) report(line);
  return NULL;
}

void tflite_plugin_destroy_delegate(TfLiteDelegate *delegate) {
  if (delegate) close_delegate(ed_delegate_of(delegate));
}
