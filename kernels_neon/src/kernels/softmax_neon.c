// SPDX-License-Identifier: Apache-2.0
// Rows in blocks, step by step, so that each table stays in the registers for a whole block. In the scratch memory rows
// are filled up to whole vectors.
#include <string.h>

#include "look_up_neon.h"
#include "neon.h"
#include "softmax.h"

typedef struct {
  const ed_softmax *state;
  size_t padded;   // bytes of a row in the scratch memory
  uint8_t *index;  // where to look
  uint8_t *high;   // the high bytes of what was found
  uint16_t *exponential;
  uint8x16_t flip;  // what makes bytes that compare like their values
} block;

// The last 16 bytes of a row that has as many, or all of it, filled up with its first value.
static inline uint8x16_t last_of(const uint8_t *from, size_t row) {
  if (row >= 16) return vld1q_u8(from + row - 16);
  uint8_t rest[16];
  memset(rest, from[0], sizeof rest);
  memcpy(rest, from, row);
  return vld1q_u8(rest);
}

// What is filled up is looked up as well, at 0.
static inline void find_indices(const block *at, const uint8_t *from, uint8_t *index, bool is_whole) {
  size_t row = at->state->row, i = 0;
  const uint8x16_t flip = at->flip, last = last_of(from, row);
  uint8x16_t most = veorq_u8(last, flip);
  for (; i + 16 < row; i += 16) most = vmaxq_u8(most, veorq_u8(vld1q_u8(from + i), flip));
  // 255 less the greatest; for signed bytes 128 more.
  const uint8x16_t shift = vsubq_u8(vaddq_u8(vdupq_n_u8(255), flip), vdupq_n_u8(vmaxvq_u8(most)));
  if (!is_whole) vst1q_u8(index + at->padded - 16, vdupq_n_u8(0));
  for (i = 0; i + 16 < row; i += 16) vst1q_u8(index + i, vaddq_u8(vld1q_u8(from + i), shift));
  if (row >= 16) {
    vst1q_u8(index + row - 16, vaddq_u8(last, shift));
  } else {
    uint8_t rest[16];
    vst1q_u8(rest, vaddq_u8(last, shift));
    memcpy(index, rest, row);
  }
}

static inline void store_exponentials(uint16_t *to, uint8x16_t low, uint8x16_t high) {
  vst1q_u16(to, vreinterpretq_u16_u8(vzip1q_u8(low, high)));
  vst1q_u16(to + 8, vreinterpretq_u16_u8(vzip2q_u8(low, high)));
}

// Two vectors at a time; there is room for one more than there are.
static void look_up(const ed_softmax *state, const uint8_t *restrict index, uint8_t *restrict high,
                    uint16_t *restrict exponential, size_t bytes) {
  ed_quarters table = ed_quarters_of(state->high);
  for (size_t i = 0; i < bytes; i += 32) {
    uint8x16_t first = vld1q_u8(index + i), second = vld1q_u8(index + i + 16);
    vst1q_u8(high + i, ed_look_up(&table, first));
    vst1q_u8(high + i + 16, ed_look_up(&table, second));
  }
  table = ed_quarters_of(state->low);
  for (size_t i = 0; i < bytes; i += 32) {
    uint8x16_t first = vld1q_u8(index + i), second = vld1q_u8(index + i + 16);
    store_exponentials(exponential + i, ed_look_up(&table, first), vld1q_u8(high + i));
    store_exponentials(exponential + i + 16, ed_look_up(&table, second), vld1q_u8(high + i + 16));
  }
}

static inline int32x4_t sum_of(const block *at, const uint16_t *exponential, uint32_t filled) {
  uint32x4_t sum = vpadalq_u16(vpaddlq_u16(vld1q_u16(exponential)), vld1q_u16(exponential + 8));
  for (size_t i = 16; i < at->padded; i += 16) {
    sum = vpadalq_u16(sum, vld1q_u16(exponential + i));
    sum = vpadalq_u16(sum, vld1q_u16(exponential + i + 8));
  }
  return vreinterpretq_s32_u32(vsubq_u32(vdupq_n_u32(vaddvq_u32(sum)), vdupq_n_u32(filled)));
}

// `ed_softmax_factor` in all lanes.
static inline void factor_of(int32x4_t sum, int32x4_t *mantissa, int32x4_t *right) {
  float32x4_t scaled = vmulq_f32(vcvtq_f32_s32(sum), vdupq_n_f32(1.0f / 256));
  uint32x4_t bits = vreinterpretq_u32_f32(vdivq_f32(vdupq_n_f32(1), scaled));
  uint32x4_t digits = vorrq_u32(vandq_u32(bits, vdupq_n_u32(0x7fffff)), vdupq_n_u32(0x800000));
  *mantissa = vreinterpretq_s32_u32(vshlq_n_u32(digits, 7));
  *right = vsubq_s32(vreinterpretq_s32_u32(vshrq_n_u32(bits, 23)), vdupq_n_s32(126));
}

// Sixteen results. Nothing is negative: halves go up. The shift is to the right: a sum is 65535 or more.
static inline uint8x16_t scaled(const uint16_t *exponential, int32x4_t mantissa, int32x4_t right, uint8x16_t flip) {
  uint16x8_t low = vld1q_u16(exponential), high = vld1q_u16(exponential + 8);
  int32x4_t a = vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(low))), b = vreinterpretq_s32_u32(vmovl_high_u16(low));
  int32x4_t c = vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(high))), d = vreinterpretq_s32_u32(vmovl_high_u16(high));
  a = vrshlq_s32(vqrdmulhq_s32(a, mantissa), right);
  b = vrshlq_s32(vqrdmulhq_s32(b, mantissa), right);
  c = vrshlq_s32(vqrdmulhq_s32(c, mantissa), right);
  d = vrshlq_s32(vqrdmulhq_s32(d, mantissa), right);
  // At most 256, of which half of the bits are enough.
  uint16x8_t first = vreinterpretq_u16_s16(vuzp1q_s16(vreinterpretq_s16_s32(a), vreinterpretq_s16_s32(b)));
  uint16x8_t second = vreinterpretq_u16_s16(vuzp1q_s16(vreinterpretq_s16_s32(c), vreinterpretq_s16_s32(d)));
  return veorq_u8(vqmovn_high_u16(vqmovn_u16(first), second), flip);
}

static inline void scale_row(const block *at, const uint16_t *exponential, uint8_t *to, uint32_t filled) {
  int32x4_t mantissa, right;
  factor_of(sum_of(at, exponential, filled), &mantissa, &right);
  const uint8x16_t flip = at->flip;
  size_t row = at->state->row, i = 0;
  for (; i + 32 <= row; i += 32) {
    uint8x16_t first = scaled(exponential + i, mantissa, right, flip);
    uint8x16_t second = scaled(exponential + i + 16, mantissa, right, flip);
    vst1q_u8(to + i, first);
    vst1q_u8(to + i + 16, second);
  }
  if (i + 16 <= row) {
    vst1q_u8(to + i, scaled(exponential + i, mantissa, right, flip));
    i += 16;
  }
  if (i < row) {
    uint8_t rest[16];
    vst1q_u8(rest, scaled(exponential + i, mantissa, right, flip));
    memcpy(to + i, rest, row - i);
  }
}

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  const ed_softmax *state = job->state;
  size_t padded = (state->row + 15) / 16 * 16, rows = padded < ED_SOFTMAX_BLOCK ? ED_SOFTMAX_BLOCK / padded : 1;
  size_t row = state->row, room = padded * rows + 16;
  uint8_t *index = scratch;
  const block at = {state,
                    padded,
                    index,
                    index + room,
                    (uint16_t *)(void *)(index + 2 * room),
                    vdupq_n_u8(state->is_unsigned ? 0 : 0x80)};
  uint32_t at_zero = (uint32_t)state->high[0] << 8 | state->low[0], filled = (uint32_t)(padded - row) * at_zero;
  for (; begin < end; begin += rows) {
    if (rows > end - begin) rows = end - begin;
    const uint8_t *from = (const uint8_t *)inputs[0] + begin * row;
    uint8_t *to = (uint8_t *)outputs[0] + begin * row;
    if (padded == row)
      for (size_t i = 0; i < rows; i++) find_indices(&at, from + i * row, at.index + i * padded, true);
    else
      for (size_t i = 0; i < rows; i++) find_indices(&at, from + i * row, at.index + i * padded, false);
    look_up(state, at.index, at.high, at.exponential, rows * padded);
    for (size_t i = 0; i < rows; i++) scale_row(&at, at.exponential + i * padded, to + i * row, filled);
  }
}

ED_KERNEL(softmax, neon, ed_softmax_prepare, run);
