// SPDX-License-Identifier: Apache-2.0
// First what each column of the windows adds up to, for a whole row of the input, then the sums of those along the row:
// windows next to one another share columns.
#include "average_pool.h"
#include "neon.h"

// Of this many values a sum fits 16 bits; and means of this many are exact in single precision (below).
enum { MOST_NARROW = 255, MOST_COUNT = 4096 };

typedef struct {
  float32x4_t half, reciprocal;
  int16x8_t count, offset, even, small_reciprocal;
  uint8x16_t low, high;
  bool is_exact;
} divisor;

static divisor divisor_of(int32_t count, const ed_pool *pool) {
  // Rounded up, the reciprocal of few enough gives every quotient; cut, it gives the quotient or one less.
  const int32_t up = (1 << 15) / count + ((1 << 15) % count > 0);
  const bool is_exact = count > 1 && count <= ED_AVERAGE_SMALL && 256 * count * (up * count - (1 << 15)) < 1 << 15;
  const int32_t cut = count > 1 ? (1 << 15) / count : INT16_MAX;
  return (divisor){.half = vdupq_n_f32((float)(count / 2) + 0.5f),
                   .reciprocal = vdupq_n_f32(1 / (float)count),
                   .count = vdupq_n_s16((int16_t)count),
                   .offset = vdupq_n_s16((int16_t)(count / 2 + (pool->is_unsigned ? 0 : 128 * count))),
                   .even = vdupq_n_s16(count % 2 ? INT16_MIN : 0),
                   .small_reciprocal = vdupq_n_s16((int16_t)(is_exact ? up : cut)),
                   .low = vdupq_n_u8((uint8_t)pool->low),
                   .high = vdupq_n_u8((uint8_t)pool->high),
                   .is_exact = is_exact};
}

// Quotients of sums of a small window by the count, rounded half away from zero, in 16 bits; of signed values 128 more.
// So nothing is below 0, and quotients are cut downwards: what was below 0 and is halfway between two is made less.
static inline uint8x8_t small_mean(int16x8_t sum, const divisor *by, bool is_unsigned, bool is_exact) {
  int16x8_t size = vaddq_s16(sum, by->offset);
  if (!is_unsigned) size = vaddq_s16(size, vreinterpretq_s16_u16(vcgtq_s16(by->even, sum)));
  int16x8_t found = vqdmulhq_s16(size, by->small_reciprocal);
  if (!is_exact) {
    int16x8_t left = vmlsq_s16(size, found, by->count);
    found = vsubq_s16(found, vreinterpretq_s16_u16(vcgeq_s16(left, by->count)));
  }
  return vmovn_u16(vreinterpretq_u16_s16(found));
}

// The same of any window, without the 128. With count/2 added, a sum is whole, so that another half keeps what is
// exactly divisible away from the error of the reciprocal: quotients are below 2^8, counts at most 2^12.
static inline int32x4_t mean(int32x4_t sum, const divisor *by, bool is_unsigned) {
  float32x4_t value = vcvtq_f32_s32(sum);
  float32x4_t half = is_unsigned ? by->half : vbslq_f32(vdupq_n_u32(0x80000000u), value, by->half);
  return vcvtq_s32_f32(vmulq_f32(vaddq_f32(value, half), by->reciprocal));
}

static inline uint8x16_t bounded(uint8x16_t found, const divisor *by, bool is_unsigned) {
  if (is_unsigned) return vminq_u8(vmaxq_u8(found, by->low), by->high);
  int8x16_t least = vreinterpretq_s8_u8(by->low), most = vreinterpretq_s8_u8(by->high);
  return vreinterpretq_u8_s8(vminq_s8(vmaxq_s8(vreinterpretq_s8_u8(found), least), most));
}

static inline int16x8_t add(int16x8_t sum, uint8x8_t value, bool is_unsigned) {
  if (is_unsigned) return vreinterpretq_s16_u16(vaddw_u8(vreinterpretq_u16_s16(sum), value));
  return vaddw_s8(sum, vreinterpret_s8_u8(value));
}

static inline int16x8_t add_two(uint8x8_t a, uint8x8_t b, bool is_unsigned) {
  if (is_unsigned) return vreinterpretq_s16_u16(vaddl_u8(a, b));
  return vaddl_s8(vreinterpret_s8_u8(a), vreinterpret_s8_u8(b));
}

// Of 16 * VECTORS bytes in a row of the input and as many in each of the next ones, what each column adds up to.
static inline __attribute__((always_inline)) void sum_rows(const uint8_t *from, int16x8_t *sum, ptrdiff_t step,
                                                           int32_t height, int vectors, bool is_unsigned) {
  const uint8_t *second = height > 1 ? from + step : NULL;
  for (int i = 0; i < vectors; i++) {
    uint8x16_t value = vld1q_u8(from + 16 * i), next = second ? vld1q_u8(second + 16 * i) : vdupq_n_u8(0);
    sum[2 * i] = add_two(vget_low_u8(value), vget_low_u8(next), is_unsigned);
    sum[2 * i + 1] = add_two(vget_high_u8(value), vget_high_u8(next), is_unsigned);
  }
  for (int32_t y = 2; y < height; y++) {
    second += step;
    for (int i = 0; i < vectors; i++) {
      uint8x16_t value = vld1q_u8(second + 16 * i);
      sum[2 * i] = add(sum[2 * i], vget_low_u8(value), is_unsigned);
      sum[2 * i + 1] = add(sum[2 * i + 1], vget_high_u8(value), is_unsigned);
    }
  }
}

static inline __attribute__((always_inline)) void add_rows(const uint8_t *from, int16_t *to, ptrdiff_t step,
                                                           int32_t height, int vectors, bool is_unsigned) {
  int16x8_t sum[4];
  sum_rows(from, sum, step, height, vectors, is_unsigned);
  for (int i = 0; i < 2 * vectors; i++) vst1q_s16(to + 8 * i, sum[i]);
}

static inline int32x4_t add_wide(int32x4_t sum, int16x4_t value, bool is_unsigned) {
  if (is_unsigned) return vreinterpretq_s32_u32(vaddw_u16(vreinterpretq_u32_s32(sum), vreinterpret_u16_s16(value)));
  return vaddw_s16(sum, value);
}

static inline __attribute__((always_inline)) void add_many_rows(const uint8_t *from, int32_t *to, ptrdiff_t step,
                                                                int32_t height, int vectors, bool is_unsigned) {
  int32x4_t all[8];
  for (int i = 0; i < 4 * vectors; i++) all[i] = vdupq_n_s32(0);
  for (int32_t left = height; left > 0; left -= MOST_NARROW, from += MOST_NARROW * step) {
    int16x8_t sum[4];
    sum_rows(from, sum, step, left < MOST_NARROW ? left : MOST_NARROW, vectors, is_unsigned);
    for (int i = 0; i < 2 * vectors; i++) {
      all[2 * i] = add_wide(all[2 * i], vget_low_s16(sum[i]), is_unsigned);
      all[2 * i + 1] = add_wide(all[2 * i + 1], vget_high_s16(sum[i]), is_unsigned);
    }
  }
  for (int i = 0; i < 4 * vectors; i++) vst1q_s32(to + 4 * i, all[i]);
}

// Of a whole row.
#define ADD_COLUMNS(ADD)                                                                           \
  do {                                                                                             \
    ptrdiff_t i = 0;                                                                               \
    for (; i + 32 <= row_bytes; i += 32) ADD(from + i, to + i, row_bytes, height, 2, is_unsigned); \
    for (; i < row_bytes; i += 16) {                                                               \
      if (i > row_bytes - 16) i = row_bytes - 16;                                                  \
      ADD(from + i, to + i, row_bytes, height, 1, is_unsigned);                                    \
    }                                                                                              \
  } while (0)

static inline void add_columns(const uint8_t *from, int16_t *to, ptrdiff_t row_bytes, int32_t height,
                               bool is_unsigned) {
  ADD_COLUMNS(add_rows);
}

static inline void add_long_columns(const uint8_t *from, int32_t *to, ptrdiff_t row_bytes, int32_t height,
                                    bool is_unsigned) {
  ADD_COLUMNS(add_many_rows);
}

// 8 * VECTORS channels of one pixel, of a small window.
static inline __attribute__((always_inline)) void average_few(const int16_t *from, uint8_t *to, ptrdiff_t step,
                                                              int32_t width, const divisor *by, int vectors,
                                                              bool is_unsigned, bool is_exact) {
  int16x8_t sum[4];
  for (int i = 0; i < vectors; i++) sum[i] = vld1q_s16(from + 8 * i);
  for (int32_t x = 1; x < width; x++) {
    from += step;
    for (int i = 0; i < vectors; i++) sum[i] = vaddq_s16(sum[i], vld1q_s16(from + 8 * i));
  }
  for (int i = 0; i < vectors; i += 2) {
    uint8x8_t low = small_mean(sum[i], by, is_unsigned, is_exact);
    uint8x8_t high = i + 1 < vectors ? small_mean(sum[i + 1], by, is_unsigned, is_exact) : low;
    uint8x16_t found = vcombine_u8(low, high);
    if (!is_unsigned) found = veorq_u8(found, vdupq_n_u8(0x80));
    found = bounded(found, by, is_unsigned);
    if (i + 1 < vectors)
      vst1q_u8(to + 8 * i, found);
    else
      vst1_u8(to + 8 * i, vget_low_u8(found));
  }
}

// All channels, of which the last vectors may do some once more.
static inline __attribute__((always_inline)) void pixel_of_few(const int16_t *from, uint8_t *to, int32_t channels,
                                                               int32_t width, const divisor *by, bool is_unsigned,
                                                               bool is_exact) {
  int32_t c = 0;
  for (; c + 32 <= channels; c += 32) average_few(from + c, to + c, channels, width, by, 4, is_unsigned, is_exact);
  int32_t vectors = (channels - c) / 8;
  if (vectors == 1)
    average_few(from + c, to + c, channels, width, by, 1, is_unsigned, is_exact);
  else if (vectors == 2)
    average_few(from + c, to + c, channels, width, by, 2, is_unsigned, is_exact);
  else if (vectors == 3)
    average_few(from + c, to + c, channels, width, by, 3, is_unsigned, is_exact);
  c = channels - 8;
  if (channels % 8) average_few(from + c, to + c, channels, width, by, 1, is_unsigned, is_exact);
}

static inline void pixel_of_many(const int32_t *from, uint8_t *to, int32_t channels, int32_t width, const divisor *by,
                                 bool is_unsigned) {
  for (int32_t c = 0; c < channels; c += 16) {
    if (c > channels - 16) c = channels - 16;
    int32x4_t sum[4];
    for (int i = 0; i < 4; i++) sum[i] = vld1q_s32(from + c + 4 * i);
    const int32_t *at = from + c;
    for (int32_t x = 1; x < width; x++) {
      at += channels;
      for (int i = 0; i < 4; i++) sum[i] = vaddq_s32(sum[i], vld1q_s32(at + 4 * i));
    }
    for (int i = 0; i < 4; i++) sum[i] = mean(sum[i], by, is_unsigned);
    int16x8_t low = vcombine_s16(vmovn_s32(sum[0]), vmovn_s32(sum[1]));
    int16x8_t high = vcombine_s16(vmovn_s32(sum[2]), vmovn_s32(sum[3]));
    uint8x16_t found = vreinterpretq_u8_s8(vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
    vst1q_u8(to + c, bounded(found, by, is_unsigned));
  }
}

// A row of the output.
static inline __attribute__((always_inline)) void run_row(const ed_pool *pool, const uint8_t *image, uint8_t *to,
                                                          ed_span rows, void *scratch, bool is_unsigned) {
  divisor by;
  const bool is_small = ed_average_pool_is_small(pool);
  int32_t height = rows.end - rows.begin, channels = pool->channels, known = 0;
  ptrdiff_t row_step = (ptrdiff_t)channels * pool->width;
  const uint8_t *first = image + rows.begin * row_step;
  int16_t *sums = scratch;
  int32_t *long_sums = scratch;
  if (is_small)
    add_columns(first, sums, row_step, height, is_unsigned);
  else
    add_long_columns(first, long_sums, row_step, height, is_unsigned);
  for (int32_t x = 0; x < pool->out_width; x++, to += channels) {
    ed_span columns = ed_pool_span(pool, 1, x);
    int32_t width = columns.end - columns.begin;
    if (height * width > MOST_COUNT) {
      ed_average_pool_pixel(pool, image, to, rows, columns, 0);
      continue;
    }
    if (width != known) by = divisor_of(height * (known = width), pool);  // it differs at the edges only
    ptrdiff_t at = (ptrdiff_t)columns.begin * channels;
    if (!is_small)
      pixel_of_many(long_sums + at, to, channels, width, &by, is_unsigned);
    else if (by.is_exact)
      pixel_of_few(sums + at, to, channels, width, &by, is_unsigned, true);
    else
      pixel_of_few(sums + at, to, channels, width, &by, is_unsigned, false);
  }
}

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  const ed_pool *pool = job->state;
  size_t channels = (size_t)pool->channels, image = (size_t)pool->height * (size_t)pool->width * channels;
  for (size_t row = begin; row < end; row++) {
    const uint8_t *from = (const uint8_t *)inputs[0] + row / (size_t)pool->out_height * image;
    uint8_t *to = (uint8_t *)outputs[0] + row * (size_t)pool->out_width * channels;
    ed_span rows = ed_pool_span(pool, 0, (int32_t)(row % (size_t)pool->out_height));
    if (pool->is_unsigned)
      run_row(pool, from, to, rows, scratch, true);
    else
      run_row(pool, from, to, rows, scratch, false);
  }
}

ED_KERNEL(average_pool, neon, ed_average_pool_prepare, run);
