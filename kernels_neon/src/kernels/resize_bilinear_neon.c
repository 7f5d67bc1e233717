// SPDX-License-Identifier: Apache-2.0
// First along the rows of the input, each once, to 16 bits an element; then between two of those, which the rows of the
// output that lie between them share.
#include <string.h>

#include "neon.h"
#include "resize_bilinear.h"

enum { BIAS = ED_RESIZE_HALF / ED_RESIZE_ONE };  // the second step makes it a half: what is left is to cut

typedef struct {
  uint8x16_t near, far;
} ed_weights;

// Whether a position and the next one lie between the same two; which two, the next one says.
static inline bool ed_share(const ed_between *found) {
  return found[0].at[0] == found[1].at[0];
}

// sum + value * weight, of the lower or upper 8. Sums of int8 are signed, of the same bits.
static inline uint16x8_t add_low(uint16x8_t sum, uint8x16_t value, uint8x16_t weight, bool is_unsigned) {
  if (is_unsigned) return vmlal_u8(sum, vget_low_u8(value), vget_low_u8(weight));
  int8x16_t a = vreinterpretq_s8_u8(value), b = vreinterpretq_s8_u8(weight);
  return vreinterpretq_u16_s16(vmlal_s8(vreinterpretq_s16_u16(sum), vget_low_s8(a), vget_low_s8(b)));
}

static inline uint16x8_t add_high(uint16x8_t sum, uint8x16_t value, uint8x16_t weight, bool is_unsigned) {
  if (is_unsigned) return vmlal_high_u8(sum, value, weight);
  int8x16_t a = vreinterpretq_s8_u8(value), b = vreinterpretq_s8_u8(weight);
  return vreinterpretq_u16_s16(vmlal_high_s8(vreinterpretq_s16_u16(sum), a, b));
}

static inline __attribute__((always_inline)) void weigh(uint8x16_t first, uint8x16_t second, ed_weights weights,
                                                        uint16_t *to, bool is_unsigned) {
  const uint16x8_t bias = vdupq_n_u16(BIAS);
  vst1q_u16(to, add_low(add_low(bias, first, weights.near, is_unsigned), second, weights.far, is_unsigned));
  vst1q_u16(to + 8, add_high(add_high(bias, first, weights.near, is_unsigned), second, weights.far, is_unsigned));
}

// 16 elements of one pixel, or of two that follow one another and lie between the same two.
static inline __attribute__((always_inline)) void mix(const uint8_t *a, const uint8_t *b, uint16_t *to, size_t channels,
                                                      const ed_weights *weights, int pixels, bool is_unsigned) {
  uint8x16_t first = vld1q_u8(a), second = vld1q_u8(b);
  for (int i = 0; i < pixels; i++, to += channels) weigh(first, second, weights[i], to, is_unsigned);
}

static inline __attribute__((always_inline)) void mix_pixels(const uint8_t *a, const uint8_t *b, uint16_t *to,
                                                             size_t channels, const ed_between *x, int pixels,
                                                             bool is_unsigned) {
  ed_weights weights[2];
  for (int i = 0; i < pixels; i++)
    weights[i] = (ed_weights){vld1q_dup_u8(&x[i].weight[0]), vld1q_dup_u8(&x[i].weight[1])};
  size_t c = 0;
  for (; c + 32 <= channels; c += 32) {
    mix(a + c, b + c, to + c, channels, weights, pixels, is_unsigned);
    mix(a + c + 16, b + c + 16, to + c + 16, channels, weights, pixels, is_unsigned);
  }
  for (; c < channels; c += 16) {
    if (c + 16 > channels) c = channels - 16;
    mix(a + c, b + c, to + c, channels, weights, pixels, is_unsigned);
  }
}

// A row of the input at the columns of the output.
static inline __attribute__((always_inline)) void along(const ed_resize *state, const uint8_t *row, uint16_t *to,
                                                        bool is_unsigned) {
  size_t channels = state->channels;
  const ed_between *x = state->columns, *end = x + state->out_width;
  while (x < end) {
    bool is_pair = x + 1 < end && ed_share(x);
    const uint8_t *a = row + (size_t)x[is_pair].at[0] * channels, *b = row + (size_t)x[is_pair].at[1] * channels;
    if (is_pair)
      mix_pixels(a, b, to, channels, x, 2, is_unsigned);
    else
      mix_pixels(a, b, to, channels, x, 1, is_unsigned);
    to += channels << is_pair;
    x += 1 + is_pair;
  }
}

// The same of few channels. A window may reach beyond the end of the row, where nothing is looked up.
static inline __attribute__((always_inline)) void along_few(const ed_resize *state, const uint8_t *row, uint16_t *to,
                                                            bool is_unsigned) {
  for (size_t i = 0; i < state->out_row; i += 16) {
    const ed_few *few = &state->few[i / 16];
    const uint8_t *from = row + few->start;
    uint8x16_t looked_up[2];
    for (int k = 0; k < 2; k++) {
      uint8x16_t index = vld1q_u8(few->index[k]);
      uint8x16x2_t window = {{vld1q_u8(from), vld1q_u8(from + 16)}};
      uint8x16x3_t larger = {{window.val[0], window.val[1], vld1q_u8(from + 32)}};
      looked_up[k] = state->channels <= ED_RESIZE_FEWER ? vqtbl2q_u8(window, index) : vqtbl3q_u8(larger, index);
    }
    ed_weights weights = {vld1q_u8(few->weight[0]), vld1q_u8(few->weight[1])};
    weigh(looked_up[0], looked_up[1], weights, to + i, is_unsigned);
  }
}

// A whole of two rows is 256, so that the upper byte is the result.
static inline uint8x16_t cut(uint16x8x2_t a, uint16x8x2_t b, uint16x8_t near, uint16x8_t far) {
  uint16x8_t low = vmlaq_u16(vmulq_u16(a.val[0], near), b.val[0], far);
  uint16x8_t high = vmlaq_u16(vmulq_u16(a.val[1], near), b.val[1], far);
  return vuzp2q_u8(vreinterpretq_u8_u16(low), vreinterpretq_u8_u16(high));
}

static inline uint16x8x2_t load_16(const uint16_t *from) {
  return (uint16x8x2_t){{vld1q_u16(from), vld1q_u16(from + 8)}};
}

// One row of the output, or two that follow one another.
static inline __attribute__((always_inline)) void between(const uint16_t *first, const uint16_t *second, uint8_t *to,
                                                          size_t count, const ed_between *y, int rows) {
  uint16x8_t near[2], far[2];
  for (int k = 0; k < rows; k++) near[k] = vdupq_n_u16(y[k].weight[0]), far[k] = vdupq_n_u16(y[k].weight[1]);
  size_t i = 0;
  for (; i + 32 <= count; i += 32) {
    uint16x8x2_t a = load_16(first + i), b = load_16(second + i);
    uint16x8x2_t next_a = load_16(first + i + 16), next_b = load_16(second + i + 16);
    for (int k = 0; k < rows; k++) {
      uint8_t *at = to + (size_t)k * count + i;
      uint8x16_t next = cut(next_a, next_b, near[k], far[k]);
      vst1q_u8(at, cut(a, b, near[k], far[k]));
      vst1q_u8(at + 16, next);
    }
  }
  for (; i < count; i += 16) {
    if (i + 16 > count && count > 16) i = count - 16;
    uint16x8x2_t a = load_16(first + i), b = load_16(second + i);
    for (int k = 0; k < rows; k++) {
      uint8_t short_row[16], *at = to + (size_t)k * count + i;
      vst1q_u8(count < 16 ? short_row : at, cut(a, b, near[k], far[k]));
      if (count < 16) memcpy(at, short_row, count);
    }
  }
}

static void few(const ed_resize *state, const uint8_t *row, uint16_t *to) {
  if (state->is_unsigned)
    along_few(state, row, to, true);
  else
    along_few(state, row, to, false);
}

static void many(const ed_resize *state, const uint8_t *row, uint16_t *to) {
  if (state->is_unsigned)
    along(state, row, to, true);
  else
    along(state, row, to, false);
}

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  const ed_resize *state = job->state;
  size_t row_bytes = ed_resize_row_bytes(state), out_height = (size_t)state->out_height;
  uint8_t *copy = (uint8_t *)scratch + 2 * row_bytes;
  size_t held[2] = {SIZE_MAX, SIZE_MAX};  // rows of the input, by whether they are odd
  for (size_t row = begin; row < end;) {
    const ed_between *y = &state->rows[row % out_height];
    bool is_pair = row + 1 < end && row % out_height + 1 < out_height && ed_share(y);
    size_t image = row / out_height * state->height;
    uint8_t *to = (uint8_t *)outputs[0] + row * state->out_row;
    if (state->in_row == state->out_row && !y->weight[1]) {  // as it is in the input
      memcpy(to, (const uint8_t *)inputs[0] + (image + (size_t)y->at[0]) * state->in_row, state->in_row);
      row++;
      continue;
    }
    const uint16_t *made[2];
    for (int i = 0; i < 2; i++) {
      size_t at = image + (size_t)y[is_pair].at[i], slot = at % 2;
      uint16_t *sums = (uint16_t *)((uint8_t *)scratch + slot * row_bytes);
      made[i] = sums;
      if (held[slot] == at) continue;
      held[slot] = at;
      const uint8_t *from = (const uint8_t *)inputs[0] + at * state->in_row;
      if (state->channels < ED_RESIZE_FEW)
        few(state, memcpy(copy, from, state->in_row), sums);
      else
        many(state, from, sums);
    }
    if (is_pair)
      between(made[0], made[1], to, state->out_row, y, 2);
    else
      between(made[0], made[1], to, state->out_row, y, 1);
    row += 1 + is_pair;
  }
}

ED_KERNEL(resize_bilinear, neon, ed_resize_bilinear_prepare, run);
