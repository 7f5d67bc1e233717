// SPDX-License-Identifier: Apache-2.0
#include "prelu.h"

#include "pairs_neon.h"
#include "scaled_neon.h"

typedef struct {
  const ed_prelu *state;
  ed_factors positive, negative;
  int16x8_t zero_points[2], out_zero_point;
} prepared;

static inline __attribute__((always_inline)) uint8x16_t sixteen(const prepared *by, uint8x16_t values,
                                                                uint8x16_t slopes, bool is_unsigned) {
  ed_sixteen x = ed_widen(values, by->zero_points[0], is_unsigned);
  ed_sixteen slope = ed_widen(slopes, by->zero_points[1], is_unsigned);
  for (int i = 0; i < 4; i++) {
    uint32x4_t is_negative = vcltq_s32(x.of[i], vdupq_n_s32(0));
    const ed_factors factors = {
        vbslq_s32(is_negative, by->negative.mantissa, by->positive.mantissa),
        vbslq_s32(is_negative, by->negative.left, by->positive.left),
        vbslq_s32(is_negative, by->negative.right, by->positive.right),
    };
    x.of[i] = ed_scaled_4(vbslq_s32(is_negative, vmulq_s32(x.of[i], slope.of[i]), x.of[i]), &factors);
  }
  return ed_narrow(x, by->out_zero_point, is_unsigned);
}

static inline uint8x16_t sixteen_signed(const prepared *by, uint8x16_t values, uint8x16_t slopes) {
  return sixteen(by, values, slopes, false);
}

static inline uint8x16_t sixteen_unsigned(const prepared *by, uint8x16_t values, uint8x16_t slopes) {
  return sixteen(by, values, slopes, true);
}

static inline uint8_t one(const prepared *by, uint8_t value, uint8_t slope) {
  return ed_prelu_of(by->state, value, slope);
}

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  (void)scratch;
  const ed_prelu *state = job->state;
  const prepared by = {
      state,
      ed_factors_of(state->positive),
      ed_factors_of(state->negative),
      {vdupq_n_s16((int16_t)state->zero_points[0]), vdupq_n_s16((int16_t)state->zero_points[1])},
      vdupq_n_s16((int16_t)state->out_zero_point),
  };
  if (state->pairs.is_unsigned)
    ED_RUN_PAIRS(state->pairs, &by, sixteen_unsigned, one);
  else
    ED_RUN_PAIRS(state->pairs, &by, sixteen_signed, one);
}

ED_KERNEL(prelu, neon, ed_prelu_prepare, run);
