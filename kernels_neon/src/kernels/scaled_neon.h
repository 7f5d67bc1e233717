// SPDX-License-Identifier: Apache-2.0
// requantise.h for vectors, and bytes as 32-bit numbers and back.
#ifndef ED_SCALED_NEON_H
#define ED_SCALED_NEON_H

#include "neon.h"
#include "requantise.h"

typedef struct {
  int32x4_t mantissa, left, right;  // right: negative or 0, as NEON shifts to the right
} ed_factors;

static inline ed_factors ed_factors_of(ed_factor factor) {
  int left = factor.shift > 0 ? factor.shift & 31 : 0, right = factor.shift < 0 ? factor.shift : 0;
  return (ed_factors){vdupq_n_s32(factor.mantissa), vdupq_n_s32(left), vdupq_n_s32(right)};
}

// NEON rounds halves up: what is negative is one less before it is shifted, so that they go away from zero.
static inline int32x4_t ed_scaled_4(int32x4_t x, const ed_factors *by) {
  int32x4_t high = vqrdmulhq_s32(vshlq_s32(x, by->left), by->mantissa);
  int32x4_t one_less = vshrq_n_s32(vandq_s32(high, by->right), 31);
  return vrshlq_s32(vqaddq_s32(high, one_less), by->right);
}

// The same for a factor below 1.
static inline int32x4_t ed_scaled_down_4(int32x4_t x, const ed_factors *by) {
  int32x4_t high = vqrdmulhq_s32(x, by->mantissa);
  int32x4_t one_less = vshrq_n_s32(vandq_s32(high, by->right), 31);
  return vrshlq_s32(vqaddq_s32(high, one_less), by->right);
}

typedef struct {
  int32x4_t of[4];
} ed_sixteen;

// Sixteen bytes less a zero point.
static inline ed_sixteen ed_widen(uint8x16_t bytes, int16x8_t zero_point, bool is_unsigned) {
  int16x8_t low, high;
  if (is_unsigned) {
    low = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(bytes)));
    high = vreinterpretq_s16_u16(vmovl_u8(vget_high_u8(bytes)));
  } else {
    low = vmovl_s8(vget_low_s8(vreinterpretq_s8_u8(bytes)));
    high = vmovl_s8(vget_high_s8(vreinterpretq_s8_u8(bytes)));
  }
  low = vsubq_s16(low, zero_point);
  high = vsubq_s16(high, zero_point);
  return (ed_sixteen){{vmovl_s16(vget_low_s16(low)), vmovl_s16(vget_high_s16(low)), vmovl_s16(vget_low_s16(high)),
                       vmovl_s16(vget_high_s16(high))}};
}

// Sixteen numbers plus a zero point, as many of them as fit a byte.
static inline uint8x16_t ed_narrow(ed_sixteen from, int16x8_t zero_point, bool is_unsigned) {
  int16x8_t low = vcombine_s16(vqmovn_s32(from.of[0]), vqmovn_s32(from.of[1]));
  int16x8_t high = vcombine_s16(vqmovn_s32(from.of[2]), vqmovn_s32(from.of[3]));
  low = vqaddq_s16(low, zero_point);
  high = vqaddq_s16(high, zero_point);
  if (is_unsigned) return vcombine_u8(vqmovun_s16(low), vqmovun_s16(high));
  return vreinterpretq_u8_s8(vcombine_s8(vqmovn_s16(low), vqmovn_s16(high)));
}

#endif
