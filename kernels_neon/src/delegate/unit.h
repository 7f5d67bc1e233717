// SPDX-License-Identifier: Apache-2.0
// A node of the runtime that is timed.
#ifndef ED_UNIT_H
#define ED_UNIT_H

#include <stdbool.h>

#include "../../include/edgedeploy.h"
#include "../tflite/abi.h"
#include "operators.h"

typedef TfLiteStatus (*ed_get_node)(TfLiteContext *, int, TfLiteNode **, TfLiteRegistration **);

// A node whose `invoke` was replaced. The list of its inputs is where it was made, however nodes are moved.
typedef struct {
  const TfLiteIntArray *key;
  TfLiteStatus (*invoke)(TfLiteContext *, TfLiteNode *);
  edgedeploy_time time;
  int32_t *ops;
  size_t running_count;  // ops that do not only unpack a constant
  int32_t *running_ops, *codes;
  ed_operators operators;
} ed_unit;

// Of the node `number` of a subgraph. NULL without memory.
ed_unit *ed_unit_make(TfLiteContext *context, ed_get_node get_node, uint32_t subgraph, int number,
                      const TfLiteNode *node, const TfLiteRegistration *made);

// Starts its times anew.
void ed_unit_forget(ed_unit *unit);

void ed_unit_free(ed_unit *unit);

#endif
