// SPDX-License-Identifier: Apache-2.0
#include "l2_normalization.h"

#include "neon.h"
#include "scaled_neon.h"

// Values less the zero point.
static inline int16x8_t less(uint8x8_t bytes, int16x8_t zero_point, bool is_unsigned) {
  int16x8_t wide = is_unsigned ? vreinterpretq_s16_u16(vmovl_u8(bytes)) : vmovl_s8(vreinterpret_s8_u8(bytes));
  return vsubq_s16(wide, zero_point);
}

// `ed_scaled_4` for a factor that shifts to the right. Less one, for what is negative, is plus its sign.
static inline int32x4_t scaled_right(int32x4_t x, const ed_factors *by) {
  int32x4_t high = vqrdmulhq_s32(x, by->mantissa);
  return vrshlq_s32(vsraq_n_s32(high, high, 31), by->right);
}

// As the stock kernel scales them: uint8 values 128 times.
static inline ed_sixteen widened(uint8x16_t bytes, int16x8_t zero_point, bool is_unsigned) {
  if (!is_unsigned) return ed_widen(bytes, zero_point, false);
  int16x8_t low = less(vget_low_u8(bytes), zero_point, true), high = less(vget_high_u8(bytes), zero_point, true);
  return (ed_sixteen){{vshll_n_s16(vget_low_s16(low), 7), vshll_high_n_s16(low, 7), vshll_n_s16(vget_low_s16(high), 7),
                       vshll_high_n_s16(high, 7)}};
}

static inline __attribute__((always_inline)) void run_row(const ed_l2_normalization *state, const uint8_t *from,
                                                          uint8_t *to, bool is_unsigned) {
  const int16x8_t zero_point = vdupq_n_s16((int16_t)state->zero_point);
  const size_t row = state->row;
  int32x4_t sums[2] = {vdupq_n_s32(0), vdupq_n_s32(0)};
  size_t i = 0;
  for (; i + 16 <= row; i += 16) {
    uint8x16_t bytes = vld1q_u8(from + i);
    int16x8_t low = less(vget_low_u8(bytes), zero_point, is_unsigned);
    int16x8_t high = less(vget_high_u8(bytes), zero_point, is_unsigned);
    sums[0] = vmlal_s16(sums[0], vget_low_s16(low), vget_low_s16(low));
    sums[1] = vmlal_high_s16(sums[1], low, low);
    sums[0] = vmlal_s16(sums[0], vget_low_s16(high), vget_low_s16(high));
    sums[1] = vmlal_high_s16(sums[1], high, high);
  }
  int32_t squares = vaddvq_s32(vaddq_s32(sums[0], sums[1]));
  for (; i < row; i++) {
    int32_t x = (is_unsigned ? from[i] : (int8_t)from[i]) - state->zero_point;
    squares += x * x;
  }
  const ed_factor factor = ed_l2_factor(squares, is_unsigned);
  const ed_factors factors = ed_factors_of(factor);
  const int16x8_t middle = vdupq_n_s16(is_unsigned ? 128 : 0);
  const bool is_right = factor.shift < 0;
  for (i = 0; is_right && i + 16 <= row; i += 16) {
    ed_sixteen x = widened(vld1q_u8(from + i), zero_point, is_unsigned);
    for (int k = 0; k < 4; k++) x.of[k] = scaled_right(x.of[k], &factors);
    vst1q_u8(to + i, ed_narrow(x, middle, is_unsigned));
  }
  for (; i + 16 <= row; i += 16) {
    ed_sixteen x = widened(vld1q_u8(from + i), zero_point, is_unsigned);
    for (int k = 0; k < 4; k++) x.of[k] = ed_scaled_4(x.of[k], &factors);
    vst1q_u8(to + i, ed_narrow(x, middle, is_unsigned));
  }
  for (; i < row; i++) to[i] = ed_l2_of(state, from[i], factor);
}

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  (void)scratch;
  const ed_l2_normalization *state = job->state;
  for (size_t row = begin; row < end; row++) {
    const uint8_t *from = (const uint8_t *)inputs[0] + row * state->row;
    uint8_t *to = (uint8_t *)outputs[0] + row * state->row;
    if (state->is_unsigned)
      run_row(state, from, to, true);
    else
      run_row(state, from, to, false);
  }
}

ED_KERNEL(l2_normalization, neon, ed_l2_normalization_prepare, run);
