// SPDX-License-Identifier: Apache-2.0
// First the greatest of each column of the window, for a whole row of the input, then the greatest of those along the
// row.
#include "max_pool.h"
#include "neon.h"

static inline uint8x16_t greater(uint8x16_t a, uint8x16_t b, bool is_unsigned) {
  if (is_unsigned) return vmaxq_u8(a, b);
  return vreinterpretq_u8_s8(vmaxq_s8(vreinterpretq_s8_u8(a), vreinterpretq_s8_u8(b)));
}

static inline uint8_t greater_byte(uint8_t a, uint8_t b, bool is_unsigned) {
  return (is_unsigned ? a > b : (int8_t)a > (int8_t)b) ? a : b;
}

// The greatest of `count` vectors that lie `step` apart; 64 bytes or 16.
static inline __attribute__((always_inline)) void greatest_64(const uint8_t *from, uint8_t *to, int32_t count,
                                                              size_t step, bool is_unsigned) {
  uint8x16x4_t most = vld1q_u8_x4(from);
  for (int32_t i = 1; i < count; i++) {
    uint8x16x4_t next = vld1q_u8_x4(from += step);
    for (int k = 0; k < 4; k++) most.val[k] = greater(most.val[k], next.val[k], is_unsigned);
  }
  vst1q_u8_x4(to, most);
}

static inline uint8x16_t greatest_16(const uint8_t *from, int32_t count, size_t step, bool is_unsigned) {
  uint8x16_t most = vld1q_u8(from);
  for (int32_t i = 1; i < count; i++) most = greater(most, vld1q_u8(from += step), is_unsigned);
  return most;
}

static inline __attribute__((always_inline)) void greatest_two(const uint8_t *from, uint8_t *to, size_t second,
                                                               int32_t count, size_t step, bool is_unsigned) {
  uint8x16_t most = vld1q_u8(from), other = vld1q_u8(from + second);
  for (int32_t i = 1; i < count; i++) {
    from += step;
    most = greater(most, vld1q_u8(from), is_unsigned);
    other = greater(other, vld1q_u8(from + second), is_unsigned);
  }
  vst1q_u8(to, most);
  vst1q_u8(to + second, other);
}

// Of 16 bytes or more next to one another, each the greatest of `count` that lie `step` apart.
static inline __attribute__((always_inline)) void greatest(const uint8_t *from, uint8_t *to, size_t bytes,
                                                           int32_t count, size_t step, bool is_unsigned) {
  size_t i = 0;
  for (; i + 64 <= bytes; i += 64) greatest_64(from + i, to + i, count, step, is_unsigned);
  for (; i + 16 < bytes; i += 32)
    greatest_two(from + i, to + i, i + 32 <= bytes ? 16 : bytes - 16 - i, count, step, is_unsigned);
  if (i < bytes) vst1q_u8(to + bytes - 16, greatest_16(from + bytes - 16, count, step, is_unsigned));
}

static void clamp(const ed_pool *pool, uint8_t *to, size_t bytes) {
  uint8_t low = (uint8_t)pool->low, high = (uint8_t)pool->high;
  for (size_t i = 0; i < bytes; i++) {
    to[i] = greater_byte(to[i], low, pool->is_unsigned);
    to[i] = greater_byte(to[i], high, pool->is_unsigned) == high ? to[i] : high;
  }
}

static inline __attribute__((always_inline)) void run_row(const ed_pool *pool, const uint8_t *image, uint8_t *to,
                                                          ed_span rows, uint8_t *columns, bool is_unsigned) {
  size_t channels = (size_t)pool->channels, row_bytes = (size_t)pool->width * channels;
  greatest(image + (size_t)rows.begin * row_bytes, columns, row_bytes, rows.end - rows.begin, row_bytes, is_unsigned);
  for (int32_t x = 0; x < pool->out_width; x++) {
    ed_span span = ed_pool_span(pool, 1, x);
    const uint8_t *first = columns + (size_t)span.begin * channels;
    greatest(first, to + (size_t)x * channels, channels, span.end - span.begin, channels, is_unsigned);
  }
}

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  const ed_pool *pool = job->state;
  size_t channels = (size_t)pool->channels, row_bytes = (size_t)pool->width * channels;
  bool is_bounded = pool->high - pool->low < 255;
  for (size_t row = begin; row < end; row++) {
    const uint8_t *image =
        (const uint8_t *)inputs[0] + row / (size_t)pool->out_height * (size_t)pool->height * row_bytes;
    uint8_t *to = (uint8_t *)outputs[0] + row * (size_t)pool->out_width * channels;
    ed_span rows = ed_pool_span(pool, 0, (int32_t)(row % (size_t)pool->out_height));
    if (pool->is_unsigned)
      run_row(pool, image, to, rows, scratch, true);
    else
      run_row(pool, image, to, rows, scratch, false);
    if (is_bounded) clamp(pool, to, (size_t)pool->out_width * channels);
  }
}

ED_KERNEL(max_pool, neon, ed_max_pool_prepare, run);
