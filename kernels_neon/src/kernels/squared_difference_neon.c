// SPDX-License-Identifier: Apache-2.0
#include "squared_difference.h"

#include "pairs_neon.h"
#include "scaled_neon.h"

typedef struct {
  const ed_squared_difference *state;
  ed_factors factors[2], square;
  int16x8_t zero_points[2], out_zero_point;
} prepared;

static inline uint8x16_t sixteen(const prepared *by, uint8x16_t a, uint8x16_t b) {
  ed_sixteen x = ed_widen(a, by->zero_points[0], false), y = ed_widen(b, by->zero_points[1], false);
  for (int i = 0; i < 4; i++) {
    int32x4_t first = ed_scaled_down_4(vshlq_n_s32(x.of[i], 7), &by->factors[0]);
    int32x4_t second = ed_scaled_down_4(vshlq_n_s32(y.of[i], 7), &by->factors[1]);
    int32x4_t difference = vsubq_s32(first, second);
    x.of[i] = ed_scaled_4(vmulq_s32(difference, difference), &by->square);
  }
  return ed_narrow(x, by->out_zero_point, false);
}

static inline uint8_t one(const prepared *by, uint8_t a, uint8_t b) {
  return ed_squared_difference_of(by->state, a, b);
}

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  (void)scratch;
  const ed_squared_difference *state = job->state;
  const prepared by = {
      state,
      {ed_factors_of(state->factors[0]), ed_factors_of(state->factors[1])},
      ed_factors_of(state->square),
      {vdupq_n_s16((int16_t)state->zero_points[0]), vdupq_n_s16((int16_t)state->zero_points[1])},
      vdupq_n_s16((int16_t)state->out_zero_point),
  };
  ED_RUN_PAIRS(state->pairs, &by, sixteen, one);
}

ED_KERNEL(squared_difference, neon, ed_squared_difference_prepare, run);
