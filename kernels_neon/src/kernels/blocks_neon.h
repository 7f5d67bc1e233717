// SPDX-License-Identifier: Apache-2.0
// A row of pixels of 8 or 16 channels each, converted on the way.
#ifndef ED_BLOCKS_NEON_H
#define ED_BLOCKS_NEON_H

#include "../moves/moves.h"
#include "blocks.h"
#include "neon.h"

typedef struct {
  float32x4_t scale, inverse;
  int16x8_t zero_point;
} ed_scales;

// To the nearest, halves to even. NEON saturates, SIMDe does not: there numbers are kept within what matters first.
static inline int32x4_t ed_nearest(float32x4_t value) {
#ifdef ED_SIMDE
  value = vminq_f32(vmaxq_f32(value, vdupq_n_f32(-65536)), vdupq_n_f32(65536));
#endif
  return vcvtnq_s32_f32(value);
}

// Eight channels.
static inline uint8x8_t ed_quantise_8(const float *from, const ed_scales *by, bool is_unsigned) {
  int32x4_t low = ed_nearest(vmulq_f32(vld1q_f32(from), by->inverse));
  int32x4_t high = ed_nearest(vmulq_f32(vld1q_f32(from + 4), by->inverse));
  int16x8_t whole = vqaddq_s16(vcombine_s16(vqmovn_s32(low), vqmovn_s32(high)), by->zero_point);
  return is_unsigned ? vqmovun_s16(whole) : vreinterpret_u8_s8(vqmovn_s16(whole));
}

static inline void ed_dequantise_8(uint8x8_t bytes, float *to, const ed_scales *by, bool is_unsigned) {
  int16x8_t wide = is_unsigned ? vreinterpretq_s16_u16(vmovl_u8(bytes)) : vmovl_s8(vreinterpret_s8_u8(bytes));
  wide = vsubq_s16(wide, by->zero_point);
  vst1q_f32(to, vmulq_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide))), by->scale));
  vst1q_f32(to + 4, vmulq_f32(vcvtq_f32_s32(vmovl_s16(vget_high_s16(wide))), by->scale));
}

static inline __attribute__((always_inline)) void ed_quantise_pixels(const ed_blocks *state, const uint8_t *from,
                                                                     uint8_t *restrict to, size_t from_step,
                                                                     size_t to_step, bool is_unsigned) {
  const ed_scales by = {.inverse = vdupq_n_f32(state->inverse), .zero_point = vdupq_n_s16((int16_t)state->zero_point)};
  const float *values = (const float *)(const void *)from;
  for (int32_t x = 0; x < state->width; x++, values += from_step, to += to_step) {
    vst1_u8(to, ed_quantise_8(values, &by, is_unsigned));
    if (state->depth == 16) vst1_u8(to + 8, ed_quantise_8(values + 8, &by, is_unsigned));
  }
}

static inline __attribute__((always_inline)) void ed_dequantise_pixels(const ed_blocks *state, const uint8_t *from,
                                                                       uint8_t *to, size_t from_step, size_t to_step,
                                                                       bool is_unsigned) {
  const ed_scales by = {.scale = vdupq_n_f32(state->scale), .zero_point = vdupq_n_s16((int16_t)state->zero_point)};
  float *values = (float *)(void *)to;
  for (int32_t x = 0; x < state->width; x++, from += from_step, values += to_step) {
    ed_dequantise_8(vld1_u8(from), values, &by, is_unsigned);
    if (state->depth == 16) ed_dequantise_8(vld1_u8(from + 8), values + 8, &by, is_unsigned);
  }
}

static inline void ed_flip_pixels(const ed_blocks *state, const uint8_t *from, uint8_t *to, size_t from_step,
                                  size_t to_step) {
  const uint8x16_t top = vdupq_n_u8(0x80);
  int32_t x = 0, width = state->width;
  if (state->depth == 16) {
    for (; x + 4 <= width; x += 4, from += 4 * from_step, to += 4 * to_step) {
      uint8x16_t a = vld1q_u8(from), b = vld1q_u8(from + from_step);
      uint8x16_t c = vld1q_u8(from + 2 * from_step), d = vld1q_u8(from + 3 * from_step);
      vst1q_u8(to, veorq_u8(a, top));
      vst1q_u8(to + to_step, veorq_u8(b, top));
      vst1q_u8(to + 2 * to_step, veorq_u8(c, top));
      vst1q_u8(to + 3 * to_step, veorq_u8(d, top));
    }
    for (; x < width; x++, from += from_step, to += to_step) vst1q_u8(to, veorq_u8(vld1q_u8(from), top));
    return;
  }
  for (; x < width; x++, from += from_step, to += to_step) vst1_u8(to, veor_u8(vld1_u8(from), vget_low_u8(top)));
}

// Whether a pixel of a block is 16 bytes that are copied or flipped.
static inline bool ed_moves_vectors(const ed_blocks *state) {
  bool is_moved = state->conversion == kEdCopy || state->conversion == kEdFlip;
  return is_moved && (size_t)state->depth * state->bytes == 16;
}

static inline uint8x16_t ed_flipped(uint8x16_t value, bool is_flipped) {
  return is_flipped ? veorq_u8(value, vdupq_n_u8(0x80)) : value;
}

// A row of four such blocks at a time, which are next to one another in the image.
static inline __attribute__((always_inline)) void ed_spread_four(const ed_blocks *state, const uint8_t *restrict from,
                                                                 uint8_t *restrict to, bool is_flipped) {
  const size_t row = (size_t)state->width * 16, plane = row * (size_t)state->height;
  const size_t step = (size_t)state->channels * state->bytes;
  uint8_t *second = to + plane, *third = to + 2 * plane, *fourth = to + 3 * plane;
  for (size_t at = 0; at < row; at += 16, from += step) {
    uint8x16x4_t pixel = vld1q_u8_x4(from);
    vst1q_u8(to + at, ed_flipped(pixel.val[0], is_flipped));
    vst1q_u8(second + at, ed_flipped(pixel.val[1], is_flipped));
    vst1q_u8(third + at, ed_flipped(pixel.val[2], is_flipped));
    vst1q_u8(fourth + at, ed_flipped(pixel.val[3], is_flipped));
  }
}

static inline __attribute__((always_inline)) void ed_gather_four(const ed_blocks *state, const uint8_t *restrict from,
                                                                 uint8_t *restrict to, bool is_flipped) {
  const size_t row = (size_t)state->width * 16, plane = row * (size_t)state->height;
  const size_t step = (size_t)state->channels * state->bytes;
  const uint8_t *second = from + plane, *third = from + 2 * plane, *fourth = from + 3 * plane;
  for (size_t at = 0; at < row; at += 16, to += step) {
    uint8x16x4_t pixel = {{vld1q_u8(from + at), vld1q_u8(second + at), vld1q_u8(third + at), vld1q_u8(fourth + at)}};
    for (int i = 0; i < 4; i++) pixel.val[i] = ed_flipped(pixel.val[i], is_flipped);
    vst1q_u8_x4(to, pixel);
  }
}

static inline void ed_spread_pixels(const ed_blocks *state, const uint8_t *from, uint8_t *to) {
  if (state->conversion == kEdFlip)
    ed_spread_four(state, from, to, true);
  else
    ed_spread_four(state, from, to, false);
}

static inline void ed_gather_pixels(const ed_blocks *state, const uint8_t *from, uint8_t *to) {
  if (state->conversion == kEdFlip)
    ed_gather_four(state, from, to, true);
  else
    ed_gather_four(state, from, to, false);
}

// Steps in elements from pixel to pixel.
static inline void ed_convert_pixels(const ed_blocks *state, const uint8_t *from, uint8_t *to, size_t from_step,
                                     size_t to_step) {
  switch (state->conversion) {
    case kEdQuantise:
      if (state->is_unsigned)
        ed_quantise_pixels(state, from, to, from_step, to_step, true);
      else
        ed_quantise_pixels(state, from, to, from_step, to_step, false);
      return;
    case kEdDequantise:
      if (state->is_unsigned)
        ed_dequantise_pixels(state, from, to, from_step, to_step, true);
      else
        ed_dequantise_pixels(state, from, to, from_step, to_step, false);
      return;
    case kEdFlip:
      ed_flip_pixels(state, from, to, from_step, to_step);
      return;
    default: {
      const ed_box row = {.rank = 1,
                          .dims = {state->width},
                          .from = {(ptrdiff_t)(from_step * state->bytes)},
                          .to = {(ptrdiff_t)(to_step * state->bytes)},
                          .run = (size_t)state->depth * state->bytes};
      ed_copy_runs_neon(&row, to, from, (size_t)state->width);
    }
  }
}

#endif
