// SPDX-License-Identifier: Apache-2.0
// SOFTMAX of 8-bit rows, as the built-in kernel for aarch64 computes it (`optimized_ops.h`): exponentials of 16 bits
// from a table, their sum, and one factor for each row that scales them to 1/256.
//
// Trap: on x86-64 the same runtime adds exponentials in single precision, and its results differ by 1 now and then.
#ifndef ED_SOFTMAX_H
#define ED_SOFTMAX_H

#include "kernel.h"
#include "requantise.h"

// The state of a job; its units are rows. An exponential is found by what its value is below the row's greatest.
typedef struct {
  size_t row;
  int32_t zero_point;
  bool is_unsigned;
  uint8_t high[256], low[256];  // its bytes, by 255 less that distance
} ed_softmax;

bool ed_softmax_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes);

// What scales exponentials with that sum.
ed_factor ed_softmax_factor(int32_t sum);

// What to add to a byte, as a number of 8 bits, to find its exponential, in a row with that greatest one.
static inline uint8_t ed_softmax_shift(const ed_softmax *state, uint8_t greatest) {
  return (uint8_t)((state->is_unsigned ? 255 : 127) - (state->is_unsigned ? greatest : (int8_t)greatest) +
                   (state->is_unsigned ? 0 : 128));
}

enum { ED_SOFTMAX_BLOCK = 2048 };  // elements that NEON works on at a time, or a row

#endif
