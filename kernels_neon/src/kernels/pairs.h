// SPDX-License-Identifier: Apache-2.0
// Ops of two 8-bit inputs, the second of the first one's shape, or repeated: one value for each channel, or one.
#ifndef ED_PAIRS_H
#define ED_PAIRS_H

#include "kernel.h"

typedef struct {
  size_t elements;
  size_t period;  // element i goes with element i % period of the second
  bool is_unsigned;
} ed_pairs;

bool ed_pairs_prepare(const ed_op *op, ed_pairs *pairs, char *reason, size_t reason_bytes);

#endif
