// SPDX-License-Identifier: Apache-2.0
// The delegate as its parts see it.
#ifndef ED_DELEGATE_H
#define ED_DELEGATE_H

#include <string.h>

#include "../tflite/abi.h"
#include "options.h"
#include "plan.h"
#include "workshop.h"

enum { ED_LINE = 512 };  // bytes of a message

// A delegate node that the runtime made of a claim.
typedef struct {
  int count;
  int *ops;
} ed_made;

// What came of a partition's claim.
typedef struct {
  size_t made_count;
  ed_made *made;
  size_t internal_bytes;  // of tensors inside it
} ed_claimed;

typedef struct ed_stock ed_stock;
typedef struct ed_times ed_times;
typedef struct ed_xnnpack ed_xnnpack;

typedef struct {
  TfLiteDelegate tflite;
  ed_options options;
  ed_plan plan;
  ed_claimed *claimed;  // of each partition of the plan
  ed_stock **stocks;    // of each back end of the plan that is a stock delegate, else NULL
  ed_xnnpack *xnnpack;  // NULL unless the plan switches it on
  ed_claimed *taken;    // by it, in each subgraph of the plan
  ed_times *times;      // NULL unless times are asked for
  ed_workshop shop;
  uint32_t claiming;  // the partition whose claim is being made
} ed_delegate;

#define ED_OWN_DELEGATE "edgedeploy"

static inline ed_delegate *ed_delegate_of(TfLiteDelegate *delegate) {
  return delegate->data_;
}

// Says what is wrong: a line of its own, as Python puts what it is told into one text.
TfLiteStatus ed_fail(TfLiteContext *context, const char *line);

// Threads to use: the option, or as many as the interpreter has.
int ed_delegate_threads(const ed_delegate *delegate, const TfLiteContext *context);

static inline bool ed_is_own(const ed_delegate *delegate, uint32_t partition) {
  return !strcmp(ed_plan_text(&delegate->plan, delegate->plan.partitions[partition].delegate), ED_OWN_DELEGATE);
}

#endif
