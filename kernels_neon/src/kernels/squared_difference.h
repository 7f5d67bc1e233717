// SPDX-License-Identifier: Apache-2.0
// SQUARED_DIFFERENCE of int8, as the built-in kernel computes it: both inputs, seven bits up, in units of twice the
// larger scale; the square of their difference in the output's.
#ifndef ED_SQUARED_DIFFERENCE_H
#define ED_SQUARED_DIFFERENCE_H

#include "pairs.h"
#include "requantise.h"

typedef struct {
  ed_pairs pairs;
  ed_factor factors[2], square;
  int32_t zero_points[2], out_zero_point;
} ed_squared_difference;

bool ed_squared_difference_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes);

static inline uint8_t ed_squared_difference_of(const ed_squared_difference *state, uint8_t a, uint8_t b) {
  int32_t x = ed_scaled(((int8_t)a - state->zero_points[0]) * 128, state->factors[0]);
  int32_t y = ed_scaled(((int8_t)b - state->zero_points[1]) * 128, state->factors[1]);
  return (uint8_t)ed_clamp(ed_scaled((x - y) * (x - y), state->square) + state->out_zero_point, -128, 127);
}

#endif
