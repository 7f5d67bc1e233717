// SPDX-License-Identifier: Apache-2.0
#include "average_pool.h"
#include "neon.h"

// Of this many values a sum and half their number fit 15 bits, so that its mean is found in 16; of a few more a sum
// fits 16; and means of this many are exact in single precision (below).
enum { MOST_UNSIGNED = 127, MOST_SIGNED = 255, MOST_NARROW = 255, MOST_COUNT = 4096 };

typedef struct {
  float32x4_t half, reciprocal;
  int16x8_t count, narrow_half, narrow_reciprocal;  // 2^15 divided by the count, cut
  uint8x16_t low, high;
} divisor;

// The same in 16 bits: the cut reciprocal gives the quotient or one less, which the remainder tells.
static inline int16x8_t narrow_mean(int16x8_t sum, const divisor *by, bool is_unsigned) {
  int16x8_t size = vaddq_s16(is_unsigned ? sum : vabsq_s16(sum), by->narrow_half);
  int16x8_t found = vqdmulhq_s16(size, by->narrow_reciprocal);
  int16x8_t left = vmlsq_s16(size, found, by->count);
  found = vsubq_s16(found, vreinterpretq_s16_u16(vcgeq_s16(left, by->count)));
  if (is_unsigned) return found;
  int16x8_t sign = vshrq_n_s16(sum, 15);
  return vsubq_s16(veorq_s16(found, sign), sign);
}

// Quotients of a sum by the count, rounded half away from zero. With count/2 added, a sum is whole, so that another
// half keeps what is exactly divisible away from the error of the reciprocal: quotients are below 2^8, counts at most
// 2^12.
static inline int32x4_t mean(int32x4_t sum, const divisor *by, bool is_unsigned) {
  float32x4_t value = vcvtq_f32_s32(sum);
  float32x4_t half = is_unsigned ? by->half : vbslq_f32(vdupq_n_u32(0x80000000u), value, by->half);
  return vcvtq_s32_f32(vmulq_f32(vaddq_f32(value, half), by->reciprocal));
}

// Sixteen sums.
typedef struct {
  int32x4_t of[4];
} sums;

static inline int32x4_t wide(int16x4_t value, bool is_unsigned) {
  return is_unsigned ? vreinterpretq_s32_u32(vmovl_u16(vreinterpret_u16_s16(value))) : vmovl_s16(value);
}

static inline sums widened(int16x8_t low, int16x8_t high, bool is_unsigned) {
  return (sums){{wide(vget_low_s16(low), is_unsigned), wide(vget_high_s16(low), is_unsigned),
                 wide(vget_low_s16(high), is_unsigned), wide(vget_high_s16(high), is_unsigned)}};
}

static inline void store(uint8_t *to, int16x8_t low, int16x8_t high, const divisor *by, bool is_unsigned) {
  uint8x16_t found = vreinterpretq_u8_s8(vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
  if (is_unsigned) {
    found = vminq_u8(vmaxq_u8(found, by->low), by->high);
  } else {
    int8x16_t least = vreinterpretq_s8_u8(by->low), most = vreinterpretq_s8_u8(by->high);
    found = vreinterpretq_u8_s8(vminq_s8(vmaxq_s8(vreinterpretq_s8_u8(found), least), most));
  }
  vst1q_u8(to, found);
}

static inline int16x8_t add(int16x8_t sum, uint8x8_t value, bool is_unsigned) {
  if (is_unsigned) return vreinterpretq_s16_u16(vaddw_u8(vreinterpretq_u16_s16(sum), value));
  return vaddw_s8(sum, vreinterpret_s8_u8(value));
}

// 16 * VECTORS channels of one pixel, of a small window.
static inline __attribute__((always_inline)) void average_few(const uint8_t *from, uint8_t *to, ptrdiff_t row_step,
                                                              ptrdiff_t step, int32_t height, int32_t width,
                                                              const divisor *by, int vectors, bool is_unsigned) {
  int16x8_t part[4] = {vdupq_n_s16(0), vdupq_n_s16(0), vdupq_n_s16(0), vdupq_n_s16(0)};
  for (int32_t y = 0; y < height; y++, from += row_step) {
    const uint8_t *at = from;
    for (int32_t x = 0; x < width; x++, at += step) {
      for (int i = 0; i < vectors; i++) {
        uint8x16_t value = vld1q_u8(at + 16 * i);
        part[2 * i] = add(part[2 * i], vget_low_u8(value), is_unsigned);
        part[2 * i + 1] = add(part[2 * i + 1], vget_high_u8(value), is_unsigned);
      }
    }
  }
  for (int i = 0; i < 2 * vectors; i++) part[i] = narrow_mean(part[i], by, is_unsigned);
  for (int i = 0; i < vectors; i++) store(to + 16 * i, part[2 * i], part[2 * i + 1], by, is_unsigned);
}

// 16 channels of one pixel, of a large window.
static inline void average_many(const uint8_t *from, uint8_t *to, ptrdiff_t row_step, ptrdiff_t step, int32_t height,
                                int32_t width, const divisor *by, bool is_unsigned) {
  sums all = {{vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0)}};
  for (int32_t y = 0; y < height; y++, from += row_step) {
    const uint8_t *at = from;
    for (int32_t x = 0; x < width;) {
      int16x8_t low = vdupq_n_s16(0), high = vdupq_n_s16(0);
      for (int32_t end = x + MOST_NARROW < width ? x + MOST_NARROW : width; x < end; x++, at += step) {
        uint8x16_t value = vld1q_u8(at);
        low = add(low, vget_low_u8(value), is_unsigned);
        high = add(high, vget_high_u8(value), is_unsigned);
      }
      sums next = widened(low, high, is_unsigned);
      for (int i = 0; i < 4; i++) all.of[i] = vaddq_s32(all.of[i], next.of[i]);
    }
  }
  for (int i = 0; i < 4; i++) all.of[i] = mean(all.of[i], by, is_unsigned);
  int16x8_t low = vcombine_s16(vmovn_s32(all.of[0]), vmovn_s32(all.of[1]));
  store(to, low, vcombine_s16(vmovn_s32(all.of[2]), vmovn_s32(all.of[3])), by, is_unsigned);
}

static inline __attribute__((always_inline)) void pixel(const uint8_t *from, uint8_t *to, int32_t channels,
                                                        ptrdiff_t row_step, int32_t height, int32_t width,
                                                        const divisor *by, bool is_unsigned) {
  ptrdiff_t step = channels;
  bool is_small = height * width <= (is_unsigned ? MOST_UNSIGNED : MOST_SIGNED);
  int32_t c = 0;
  for (; is_small && c + 32 <= channels; c += 32)
    average_few(from + c, to + c, row_step, step, height, width, by, 2, is_unsigned);
  for (; c < channels; c += 16) {
    if (c > channels - 16) c = channels - 16;  // some channels twice
    if (is_small)
      average_few(from + c, to + c, row_step, step, height, width, by, 1, is_unsigned);
    else
      average_many(from + c, to + c, row_step, step, height, width, by, is_unsigned);
  }
}

// A row of the output.
static inline __attribute__((always_inline)) void run_row(const ed_pool *pool, const uint8_t *image, uint8_t *to,
                                                          ed_span rows, bool is_unsigned) {
  divisor by = {.low = vdupq_n_u8((uint8_t)pool->low), .high = vdupq_n_u8((uint8_t)pool->high)};
  int32_t height = rows.end - rows.begin, channels = pool->channels, known = 0;
  ptrdiff_t row_step = (ptrdiff_t)channels * pool->width;
  for (int32_t x = 0; x < pool->out_width; x++, to += channels) {
    ed_span columns = ed_pool_span(pool, 1, x);
    int32_t width = columns.end - columns.begin;
    if (height * width > MOST_COUNT) {
      ed_average_pool_pixel(pool, image, to, rows, columns, 0);
      continue;
    }
    if (width != known) {  // it differs at the edges only
      int32_t count = height * (known = width);
      by.half = vdupq_n_f32((float)(count / 2) + 0.5f);
      by.reciprocal = vdupq_n_f32(1 / (float)count);
      by.count = vdupq_n_s16((int16_t)count);
      by.narrow_half = vdupq_n_s16((int16_t)(count / 2));
      by.narrow_reciprocal = vdupq_n_s16((int16_t)(count == 1 ? INT16_MAX : (1 << 15) / count));
    }
    const uint8_t *from = image + rows.begin * row_step + (ptrdiff_t)columns.begin * channels;
    pixel(from, to, channels, row_step, height, width, &by, is_unsigned);
  }
}

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  (void)scratch;
  const ed_pool *pool = job->state;
  size_t channels = (size_t)pool->channels, image = (size_t)pool->height * (size_t)pool->width * channels;
  for (size_t row = begin; row < end; row++) {
    const uint8_t *from = (const uint8_t *)inputs[0] + row / (size_t)pool->out_height * image;
    uint8_t *to = (uint8_t *)outputs[0] + row * (size_t)pool->out_width * channels;
    ed_span rows = ed_pool_span(pool, 0, (int32_t)(row % (size_t)pool->out_height));
    if (pool->is_unsigned)
      run_row(pool, from, to, rows, true);
    else
      run_row(pool, from, to, rows, false);
  }
}

ED_KERNEL(average_pool, neon, ed_average_pool_prepare, run);
