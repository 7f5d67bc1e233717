// SPDX-License-Identifier: Apache-2.0
// L2_NORMALIZATION of 8-bit rows, as the built-in kernels compute it: the inverse root of the sum of squares in fixed
// point by five steps of Newton's method (`GetInvSqrtQuantizedMultiplierExp`), one factor for each row.
#ifndef ED_L2_NORMALIZATION_H
#define ED_L2_NORMALIZATION_H

#include "kernel.h"
#include "requantise.h"

// The state of a job; its units are rows.
typedef struct {
  size_t row;
  int32_t zero_point;
  bool is_unsigned;
} ed_l2_normalization;

bool ed_l2_normalization_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes);

// What scales a value (uint8: 128 times it) of a row with that sum of squares to 1/128.
ed_factor ed_l2_factor(int32_t squares, bool is_unsigned);

static inline uint8_t ed_l2_of(const ed_l2_normalization *state, uint8_t value, ed_factor factor) {
  int32_t x = (state->is_unsigned ? value : (int8_t)value) - state->zero_point;
  if (state->is_unsigned) return (uint8_t)ed_clamp(128 + ed_scaled(x * 128, factor), 0, 255);
  return (uint8_t)ed_clamp(ed_scaled(x, factor), -128, 127);
}

#endif
