// SPDX-License-Identifier: Apache-2.0
// Ops of one byte that give one byte: the answer to each of the 256 is computed once.
//
// Numerics are those of the built-in kernels, the optimised and the reference ones giving the same: RELU, RELU6,
// RELU_N1_TO_1 and ABS scale a 32-bit difference (requantise.h), EXP works in float, HARD_SWISH on 16 bits (its own
// file).
#ifndef ED_LOOKUP_H
#define ED_LOOKUP_H

#include "kernel.h"

// The state of a job: by the input's bits, those of the output; from element `left_over` on, those of the second table.
typedef struct {
  uint8_t of[256], of_left_over[256];
  size_t left_over;
} ed_table;

bool ed_lookup_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes);

#endif
