// SPDX-License-Identifier: Apache-2.0
#include "claims.h"

#include <stdio.h>
#include <stdlib.h>

#include "../kernels/reject.h"
#include "fingerprint.h"
#include "partition.h"
#include "report.h"
#include "stock.h"
#include "times.h"
#include "xnnpack.h"

// --- which subgraph this is ------------------------------------------

static const ed_plan_subgraph *subgraph_of(TfLiteContext *context, const ed_plan *plan) {
  for (uint32_t i = 0; i < plan->subgraphs_count; i++) {
    TfLiteContext *found;
    int index = (int)plan->subgraphs[i].index;
    if (index < 0 || context->AcquireSubgraphContext(context, index, &found) != kTfLiteOk) return NULL;
    if (found == context) return &plan->subgraphs[i];  // to release it would end this very Prepare
    context->ReleaseSubgraphContext(context, index);
  }
  return NULL;
}

static bool is_untouched(const TfLiteIntArray *nodes) {
  for (int i = 0; i < nodes->size; i++)
    if (nodes->data[i] != i) return false;
  return true;
}

static bool check_graph(TfLiteContext *context, const ed_plan_subgraph *subgraph, char *error) {
  TfLiteIntArray *nodes;
  uint8_t digest[ED_SHA256_BYTES];
  if (context->GetExecutionPlan(context, &nodes) != kTfLiteOk)
    return ed_reject(error, ED_LINE, "the runtime shows no execution plan");
  if (!is_untouched(nodes))
    return ed_reject(error, ED_LINE, "another delegate was applied before: give edgedeploy's delegate first");
  if (!ed_fingerprint(context, nodes->size, digest)) return ed_reject(error, ED_LINE, "the runtime shows no nodes");
  if (!memcmp(digest, subgraph->fingerprint, sizeof digest)) return true;
  return ed_reject(
      error, ED_LINE,
      "the plan is for another model: subgraph %u differs; use the model of the plan's bundle, or plan this"
      " one",
      subgraph->index);
}

// --- one claim -------------------------------------------------------

static bool is_sized(const TfLiteContext *context, const TfLiteIntArray *tensors) {
  enum { RESOURCE = 14, VARIANT = 15 };
  for (int i = 0; tensors && i < tensors->size; i++) {
    if (tensors->data[i] < 0) continue;
    const TfLiteTensor *tensor = &context->tensors[tensors->data[i]];
    int type = (int)tensor->type;
    if (tensor->allocation_type == kTfLiteDynamic || type == kTfLiteString || type == RESOURCE || type == VARIANT)
      return false;
  }
  return true;
}

// The ops of a partition that may be claimed: an op with a tensor that gets its size at run time may not.
static TfLiteIntArray *claimable(TfLiteContext *context, const ed_plan *plan, uint32_t partition) {
  uint32_t first, count = ed_plan_ops(plan, partition, &first);
  TfLiteIntArray *nodes = malloc(sizeof *nodes + count * sizeof *nodes->data);
  if (!nodes) return NULL;
  nodes->size = 0;
  for (uint32_t i = first; i < first + count; i++) {
    TfLiteNode *node;
    TfLiteRegistration *registration;
    int index = (int)plan->ops[i].index;
    if (context->GetNodeAndRegistration(context, index, &node, &registration) != kTfLiteOk) continue;
    if (is_sized(context, node->inputs) && is_sized(context, node->outputs)) nodes->data[nodes->size++] = index;
  }
  return nodes;
}

static int nodes_until_now(TfLiteContext *context) {
  TfLiteIntArray *nodes;
  int most = 0;
  if (context->GetExecutionPlan(context, &nodes) != kTfLiteOk) return 0;
  for (int i = 0; i < nodes->size; i++)
    if (nodes->data[i] >= most) most = nodes->data[i] + 1;
  return most;
}

static bool note(ed_claimed *claimed, const TfLiteIntArray *ops) {
  ed_made *grown = realloc(claimed->made, (claimed->made_count + 1) * sizeof *grown);
  if (!grown) return false;
  claimed->made = grown;
  ed_made *made = &grown[claimed->made_count];
  *made = (ed_made){ops->size, malloc(((size_t)ops->size + 1) * sizeof(int))};
  if (!made->ops) return false;
  memcpy(made->ops, ops->data, (size_t)ops->size * sizeof(int));
  claimed->made_count++;
  return true;
}

// Notes the delegate nodes from `first` on, in the order of execution.
static bool note_made(TfLiteContext *context, int first, ed_claimed *claimed) {
  TfLiteIntArray *nodes;
  if (context->GetExecutionPlan(context, &nodes) != kTfLiteOk) return false;
  for (int i = 0; i < nodes->size; i++) {
    TfLiteNode *node;
    TfLiteRegistration *registration;
    if (nodes->data[i] < first) continue;
    if (context->GetNodeAndRegistration(context, nodes->data[i], &node, &registration) != kTfLiteOk) return false;
    if (registration->builtin_code != kTfLiteBuiltinDelegate || !node->builtin_data) continue;
    const TfLiteDelegateParams *params = node->builtin_data;
    if (!note(claimed, params->nodes_to_replace)) return false;
  }
  return true;
}

static TfLiteStatus claim(TfLiteContext *context, ed_delegate *delegate, uint32_t partition) {
  ed_claimed *claimed = &delegate->claimed[partition];
  ed_claimed_clear(claimed);
  TfLiteIntArray *nodes = claimable(context, &delegate->plan, partition);
  if (!nodes) return ed_fail(context, "no memory");
  int first = nodes_until_now(context);
  TfLiteStatus status = kTfLiteOk;
  delegate->claiming = partition;
  if (!nodes->size) {
    // an empty list is not given to the runtime: it would do nothing
  } else if (ed_is_own(delegate, partition)) {
    status =
        context->ReplaceNodeSubsetsWithDelegateKernels(context, ed_partition_registration(), nodes, &delegate->tflite);
  } else {
    status = ed_stock_claim(delegate->stocks[ed_plan_backend_of(&delegate->plan, partition)], context, nodes);
  }
  free(nodes);
  if (status == kTfLiteOk && !note_made(context, first, claimed)) return ed_fail(context, "no memory");
  return status;
}

// --- all claims ------------------------------------------------------

static TfLiteStatus compare(TfLiteContext *context, ed_delegate *delegate, uint32_t subgraph) {
  char line[ED_LINE];
  TfLiteStatus status = kTfLiteOk;
  for (uint32_t i = 0; i < delegate->plan.partitions_count; i++) {
    if (delegate->plan.partitions[i].subgraph != subgraph || ed_report_matches(delegate, i)) continue;
    ed_report_difference(delegate, i, line, sizeof line);
    if (delegate->options.strict)
      status = ed_fail(context, line);
    else
      fprintf(stderr, "edgedeploy: warning: %s\n", line);
  }
  return status;
}

static TfLiteStatus switch_xnnpack(TfLiteContext *context, ed_delegate *delegate, ed_claimed *taken) {
  char error[ED_LINE] = "no memory";
  if (!ed_plan_switches_xnnpack(&delegate->plan)) return kTfLiteOk;
  if (!delegate->xnnpack)
    delegate->xnnpack = ed_xnnpack_open(context, ed_delegate_threads(delegate, context), error, sizeof error);
  if (!delegate->xnnpack) return ed_fail(context, error);
  ed_claimed_clear(taken);
  int first = nodes_until_now(context);
  TfLiteStatus status = ed_xnnpack_claim(delegate->xnnpack, context);
  return status != kTfLiteOk || note_made(context, first, taken) ? status : ed_fail(context, "no memory");
}

TfLiteStatus ed_claim(TfLiteContext *context, TfLiteDelegate *tflite) {
  ed_delegate *delegate = ed_delegate_of(tflite);
  char error[ED_LINE];
  const ed_plan_subgraph *subgraph = subgraph_of(context, &delegate->plan);
  if (!subgraph) return ed_fail(context, "the plan is for another model: it has other subgraphs");
  if (!check_graph(context, subgraph, error)) return ed_fail(context, error);
  if (delegate->times) ed_times_watch(delegate->times, context, subgraph->index);
  for (uint32_t i = 0; i < delegate->plan.partitions_count; i++) {
    if (delegate->plan.partitions[i].subgraph != subgraph->index) continue;
    TfLiteStatus status = claim(context, delegate, i);
    if (status != kTfLiteOk) return status;
  }
  TfLiteStatus status = switch_xnnpack(context, delegate, &delegate->taken[subgraph - delegate->plan.subgraphs]);
  if (!ed_report_write(delegate, error, sizeof error)) return ed_fail(context, error);
  return status == kTfLiteOk ? compare(context, delegate, subgraph->index) : status;
}

void ed_claimed_clear(ed_claimed *claimed) {
  for (size_t i = 0; i < claimed->made_count; i++) free(claimed->made[i].ops);
  free(claimed->made);
  *claimed = (ed_claimed){0};
}
