// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdlib.h>
#include <string.h>

void ed_unit_forget(ed_unit *u) {
  u->time.calls = u->time.total_ns = 0;
  u->time.shortest_ns = UINT64_MAX;
  ed_operators_reset(&u->operators);
}

void ed_unit_free(ed_unit *u) {
  if (!u) return;
  ed_operators_free(&u->operators);
  free(u->ops);
  free(u->running_ops);
  free(u->codes);
  free((char *)u->time.name);
  free(u);
}

static bool unpacks_constant(const TfLiteContext *context, const TfLiteNode *node, int32_t code) {
  enum { DEQUANTIZE = 6, DENSIFY = 124 };
  return (code == DEQUANTIZE || code == DENSIFY) && node->inputs->size == 1 && node->inputs->data[0] >= 0 &&
         context->tensors[node->inputs->data[0]].allocation_type == kTfLiteMmapRo;
}

ed_unit *ed_unit_make(TfLiteContext *context, ed_get_node get_node, uint32_t subgraph, int number,
                      const TfLiteNode *node, const TfLiteRegistration *made) {
  ed_unit *u = calloc(1, sizeof *u);
  if (!u) return NULL;
  bool is_partition = made->builtin_code == kTfLiteBuiltinDelegate && node->builtin_data;
  const TfLiteIntArray *ops =
      is_partition ? ((const TfLiteDelegateParams *)node->builtin_data)->nodes_to_replace : NULL;
  size_t count = ops ? (size_t)ops->size : 1;
  u->key = node->inputs;
  u->invoke = made->invoke;
  u->ops = calloc(count + 1, sizeof *u->ops);
  u->running_ops = calloc(count + 1, sizeof *u->running_ops);
  u->codes = calloc(count + 1, sizeof *u->codes);
  u->time = (edgedeploy_time){.unit = is_partition ? EDGEDEPLOY_PARTITION : EDGEDEPLOY_KERNEL,
                              .subgraph = (int32_t)subgraph,
                              .node = number,
                              .name = strdup(made->custom_name ? made->custom_name : ""),
                              .ops = u->ops,
                              .ops_count = count};
  if (!u->ops || !u->running_ops || !u->codes || !u->time.name) {
    ed_unit_free(u);
    return NULL;
  }
  for (size_t i = 0; i < count; i++) {
    TfLiteNode *member;
    TfLiteRegistration *registration;
    u->ops[i] = ops ? ops->data[i] : number;
    if (get_node(context, u->ops[i], &member, &registration) != kTfLiteOk) continue;
    if (unpacks_constant(context, member, registration->builtin_code)) continue;
    u->codes[u->running_count] = registration->builtin_code;
    u->running_ops[u->running_count++] = u->ops[i];
  }
  ed_unit_forget(u);
  return u;
}
