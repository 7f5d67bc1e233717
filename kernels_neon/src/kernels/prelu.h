// SPDX-License-Identifier: Apache-2.0
// PRELU of 8-bit data, with a slope for each channel, for each element, or one, as the built-in kernel computes it.
#ifndef ED_PRELU_H
#define ED_PRELU_H

#include "pairs.h"
#include "requantise.h"

typedef struct {
  ed_pairs pairs;
  ed_factor positive, negative;
  int32_t zero_points[2], out_zero_point, least;
} ed_prelu;

bool ed_prelu_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes);

static inline uint8_t ed_prelu_of(const ed_prelu *state, uint8_t value, uint8_t slope) {
  bool is_unsigned = state->pairs.is_unsigned;
  int32_t x = (is_unsigned ? value : (int8_t)value) - state->zero_points[0];
  int32_t by = (is_unsigned ? slope : (int8_t)slope) - state->zero_points[1];
  int32_t found = x >= 0 ? ed_scaled(x, state->positive) : ed_scaled(x * by, state->negative);
  return (uint8_t)ed_clamp(ed_sum(found, state->out_zero_point), state->least, state->least + 255);
}

#endif
