// SPDX-License-Identifier: Apache-2.0
// Four rows at a time: their greatest; the sums of exponentials in 24 bits, a byte each; the logarithms of these
// together; then results, from two tables of bytes. Where a sum like that may give another result than the stock
// kernel's, the row's exponentials are added one by one.
//
// Rows shorter than a vector are loaded and stored as one: what is stored behind a row, the next one overwrites.
#include <string.h>

#include "log_softmax.h"
#include "log_softmax_neon.h"
#include "neon.h"

enum { LONG = 256 };  // rows of which the results of all values are made, and looked up

// Compared as bytes.
ED_INLINE uint8_t greatest_of(const prepared *by, const uint8_t *from) {
  const uint8x16_t flip = by->flip;
  uint8x16_t most = vdupq_n_u8(0);
  if (by->has_rest) most = vandq_u8(veorq_u8(vld1q_u8(from + by->last), flip), by->rest);
  size_t i = by->whole;
  for (; i >= 4; i -= 4, from += 64) {
    const uint8x16x4_t next = vld1q_u8_x4(from);
    for (int k = 0; k < 4; k++) most = vmaxq_u8(most, veorq_u8(next.val[k], flip));
  }
  for (; i > 0; i--, from += 16) most = vmaxq_u8(most, veorq_u8(vld1q_u8(from), flip));
  return vmaxvq_u8(most);
}

ED_INLINE void add(const prepared *by, const four *below, kind of, int count, uint16x8_t sums[3]) {
  four found[3];
  exponentials(by, below, of, count, found);
  for (int t = 0; t < 3; t++)
    for (int k = 0; k < count; k++) sums[t] = vpadalq_u8(sums[t], found[t].of[k]);
}

ED_INLINE void add_row(const prepared *by, const uint8_t *from, uint8x16_t greatest, kind of, uint16x8_t sums[3]) {
  four below;
  uint16x8_t added[3] = {vdupq_n_u16(0), vdupq_n_u16(0), vdupq_n_u16(0)};
  if (by->has_rest) {
    below.of[0] = vandq_u8(vsubq_u8(greatest, vld1q_u8(from + by->last)), by->rest);
    add(by, &below, of, 1, added);
  }
  size_t i = by->whole;
  for (; i >= 4; i -= 4, from += 64) {
    for (size_t k = 0; k < 4; k++) below.of[k] = vsubq_u8(greatest, vld1q_u8(from + 16 * k));
    add(by, &below, of, 4, added);
  }
  for (; i > 0; i--, from += 16) {
    below.of[0] = vsubq_u8(greatest, vld1q_u8(from));
    add(by, &below, of, 1, added);
  }
  for (int t = 0; t < 3; t++) sums[t] = added[t];
}

ED_INLINE void finish_row(const prepared *by, const uint8_t *from, uint8_t *to, uint8x16_t greatest, uint32_t end,
                          kind of) {
  four below, less, last, made;
  for (int k = 0; k < 4; k++) less.of[k] = vdupq_n_u8((uint8_t)end), last.of[k] = vdupq_n_u8((uint8_t)(end >> 8));
  if (by->has_rest) {
    below.of[0] = vsubq_u8(greatest, vld1q_u8(from + by->last));
    results(by, &below, &less, &last, of, 1, &made);
    vst1q_u8(to + by->last, made.of[0]);
  }
  size_t i = by->whole;
  for (; i >= 4; i -= 4, from += 64, to += 64) {
    for (size_t k = 0; k < 4; k++) below.of[k] = vsubq_u8(greatest, vld1q_u8(from + 16 * k));
    results(by, &below, &less, &last, of, 4, &made);
    for (size_t k = 0; k < 4; k++) vst1q_u8(to + 16 * k, made.of[k]);
  }
  for (; i > 0; i--, from += 16, to += 16) {
    below.of[0] = vsubq_u8(greatest, vld1q_u8(from));
    results(by, &below, &less, &last, of, 1, &made);
    vst1q_u8(to, made.of[0]);
  }
}

ED_INLINE uint8x16_t looked_up(const prepared *by, const uint8x16x4_t *table, uint8x16_t index, kind of) {
  uint8x16_t found = vqtbl4q_u8(table[0], index);
  for (int i = 1; i < of.quarters; i++) {
    index = vsubq_u8(index, by->step);
    found = vqtbx4q_u8(found, table[i], index);
  }
  return veorq_u8(found, by->flip);
}

ED_INLINE void finish_long_row(const prepared *by, const uint8_t *from, uint8_t *to, uint8x16_t greatest, uint32_t end,
                               kind of) {
  const uint8x16_t less = vdupq_n_u8((uint8_t)end), last = vdupq_n_u8((uint8_t)(end >> 8));
  uint8x16x4_t table[4];
#pragma GCC unroll 4
  for (int i = 0; i < of.quarters; i++) {
    const uint8x16x4_t left = vld1q_u8_x4(by->state->parts[i][0]), fraction = vld1q_u8_x4(by->state->parts[i][1]);
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) table[i].val[k] = result(left.val[k], fraction.val[k], less, last);
  }
  if (by->has_rest) vst1q_u8(to + by->last, looked_up(by, table, vsubq_u8(greatest, vld1q_u8(from + by->last)), of));
  size_t i = by->whole;
  for (; i >= 4; i -= 4, from += 64, to += 64) {
    four made;
    for (size_t k = 0; k < 4; k++) made.of[k] = looked_up(by, table, vsubq_u8(greatest, vld1q_u8(from + 16 * k)), of);
    for (size_t k = 0; k < 4; k++) vst1q_u8(to + 16 * k, made.of[k]);
  }
  for (; i > 0; i--, from += 16, to += 16) vst1q_u8(to, looked_up(by, table, vsubq_u8(greatest, vld1q_u8(from)), of));
}

// As `greatest_of` and `add_row` do, of two or four vectors.
ED_INLINE uint8_t add_vectors(const prepared *by, const uint8_t *from, kind of, uint16x8_t sums[3]) {
  four below, found[3];
  for (int k = 0; k < of.vectors; k++) below.of[k] = veorq_u8(vld1q_u8(from + by->at[k]), by->flip);
  uint8x16_t most = vmaxq_u8(below.of[0], below.of[1]);
  if (of.vectors == 4) most = vmaxq_u8(most, vmaxq_u8(below.of[2], below.of[3]));
  const uint8_t greatest = vmaxvq_u8(most);
  most = vdupq_n_u8(greatest);
  for (int k = 0; k < of.vectors; k++) below.of[k] = vsubq_u8(most, below.of[k]);
  for (int k = of.vectors / 2; k < of.vectors; k++) below.of[k] = vandq_u8(below.of[k], by->own[k]);
  exponentials(by, &below, of, of.vectors, found);
  for (int t = 0; t < 3; t++) {
    uint16x8_t sum = vpaddlq_u8(found[t].of[0]);
    for (int k = 1; k < of.vectors; k++) sum = vpadalq_u8(sum, found[t].of[k]);
    sums[t] = sum;
  }
  return greatest;
}

ED_INLINE void finish_vectors(const prepared *by, const uint8_t *from, uint8_t *to, uint8x16_t greatest, uint32_t end,
                              kind of) {
  four below, less, last, made;
  for (int k = 0; k < of.vectors; k++) {
    less.of[k] = vdupq_n_u8((uint8_t)end), last.of[k] = vdupq_n_u8((uint8_t)(end >> 8));
    below.of[k] = vsubq_u8(greatest, vld1q_u8(from + by->at[k]));
  }
  results(by, &below, &less, &last, of, of.vectors, &made);
  for (int k = 0; k < of.vectors; k++) vst1q_u8(to + by->at[k], made.of[k]);
}

ED_INLINE uint32_t end_of(const prepared *by, const logs *found, size_t r, const uint8_t *from, uint8_t *to,
                          uint8_t greatest) {
  const uint32_t last = by->state->buckets[found->bucket[r]];
  if (__builtin_expect(last == ED_LOG_UNKNOWN, 0))
    return ed_log_softmax_settle(by->state, from, to, greatest, found->halves[r]);
  return found->whole[r] | last << 8;
}

// Four rows that fit a vector.
ED_INLINE void run_vectors(const prepared *by, const uint8_t *from, uint8_t *to, kind of) {
  const size_t row = by->state->row;
  const uint8x16_t rest = by->rest;
  uint8_t greatest[ROWS], exact[ROWS][16];
  uint32x4_t sums[3];
  four below, found[3], less, last, made;
#pragma GCC unroll 4
  for (size_t r = 0; r < ROWS; r++) {
    const uint8x16_t bytes = vandq_u8(veorq_u8(vld1q_u8(from + r * row), by->flip), rest);
    greatest[r] = vmaxvq_u8(bytes);
    below.of[r] = vandq_u8(vsubq_u8(vdupq_n_u8(greatest[r]), bytes), rest);
  }
  exponentials(by, &below, of, ROWS, found);
  for (int t = 0; t < 3; t++) {
    const uint16x8_t first = vpaddq_u16(vpaddlq_u8(found[t].of[0]), vpaddlq_u8(found[t].of[1]));
    const uint16x8_t second = vpaddq_u16(vpaddlq_u8(found[t].of[2]), vpaddlq_u8(found[t].of[3]));
    sums[t] = vpaddlq_u16(vpaddq_u16(first, second));
  }
  logs taken;
  take_logs(by, sums, &taken);
  unsigned done = 0;
  for (size_t r = 0; r < ROWS; r++) {
    const uint32_t end = end_of(by, &taken, r, from + r * row, exact[r], greatest[r]);
    if (end == ED_LOG_DONE) done |= 1u << r;
    less.of[r] = vdupq_n_u8((uint8_t)end);
    last.of[r] = vdupq_n_u8((uint8_t)(end >> 8));
  }
  results(by, &below, &less, &last, of, ROWS, &made);
  for (size_t r = 0; done && r < ROWS; r++)
    if (done & 1u << r) made.of[r] = vld1q_u8(exact[r]);
  for (size_t r = 0; r < ROWS; r++) vst1q_u8(to + r * row, made.of[r]);
}

ED_INLINE void run_short(const prepared *shared, const uint8_t *from, uint8_t *to, size_t rows, kind of) {
  const prepared by = *shared;
  const size_t row = by.state->row, bytes = ROWS * row, touched = bytes + 16 - row;
  uint8_t given[ROWS * 16 + 16] = {0}, got[ROWS * 16 + 16];
  for (size_t left = rows * row; left > 0;) {
    const size_t next = left < bytes ? left : bytes;
    const bool is_inside = left >= touched;
    if (!is_inside) memcpy(given, from, next);
    run_vectors(&by, is_inside ? from : given, is_inside ? to : got, of);
    if (!is_inside) memcpy(to, got, next);
    left -= next, from += next, to += next;
  }
}

// Longer ones; up to four at a time.
ED_INLINE void run_longer(const prepared *shared, const uint8_t *from, uint8_t *to, size_t rows, kind of) {
  const prepared by = *shared;
  const size_t row = by.state->row;
  uint16x8_t added[ROWS][3];
  memset(added, 0, sizeof added);
  for (size_t count; rows > 0; rows -= count) {
    uint8_t greatest[ROWS];
    logs taken = {.bucket = {ED_LOG_BUCKETS, ED_LOG_BUCKETS, ED_LOG_BUCKETS, ED_LOG_BUCKETS}};
    const uint8_t *next = from;
    count = rows < ROWS ? rows : ROWS;
    for (size_t r = 0; r < count; r++, next += row) {
      if (of.vectors) {
        greatest[r] = add_vectors(&by, next, of, added[r]);
        continue;
      }
      greatest[r] = greatest_of(&by, next);
      if (row <= ED_LOG_MOST) add_row(&by, next, veorq_u8(vdupq_n_u8(greatest[r]), by.flip), of, added[r]);
    }
    if (of.vectors || row <= ED_LOG_MOST) {
      uint32x4_t sums[3];
      for (int t = 0; t < 3; t++) {
        const uint32x4_t first = vpaddq_u32(vpaddlq_u16(added[0][t]), vpaddlq_u16(added[1][t]));
        sums[t] = vpaddq_u32(first, vpaddq_u32(vpaddlq_u16(added[2][t]), vpaddlq_u16(added[3][t])));
      }
      take_logs(&by, sums, &taken);
    }
    for (size_t r = 0; r < count; r++, from += row, to += row) {
      const uint32_t end = end_of(&by, &taken, r, from, to, greatest[r]);
      if (end == ED_LOG_DONE) continue;
      const uint8x16_t most = veorq_u8(vdupq_n_u8(greatest[r]), by.flip);
      if (of.vectors)
        finish_vectors(&by, from, to, most, end, of);
      else if (row >= LONG)
        finish_long_row(&by, from, to, most, end, of);
      else
        finish_row(&by, from, to, most, end, of);
    }
  }
}

ED_INLINE void run_any(const prepared *by, const uint8_t *from, uint8_t *to, size_t rows, kind of) {
  const size_t row = by->state->row;
  if (row <= 16)
    run_short(by, from, to, rows, of);
  else if (row <= 32)
    run_longer(by, from, to, rows, (kind){of.quarters, of.high, 2});
  else if (row <= 64)
    run_longer(by, from, to, rows, (kind){of.quarters, of.high, 4});
  else
    run_longer(by, from, to, rows, of);
}

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  (void)scratch;
  const ed_log_softmax *state = job->state;
  const size_t row = state->row, in_rest = row == 16 ? 16 : row % 16;
  static const uint8_t kOrder[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const uint8x16_t order = vld1q_u8(kOrder), border = vdupq_n_u8((uint8_t)(row <= 16 ? in_rest : 16 - in_rest));
  const bool has_rest = row <= 16 || in_rest;
  prepared by = {.state = state,
                 .whole = row <= 16 ? 0 : row / 16,
                 .last = row <= 16 ? 0 : row - 16,
                 .rest = row <= 16 ? vcltq_u8(order, border) : vcgeq_u8(order, border),
                 .twice = vdupq_n_u32(has_rest ? (uint32_t)(16 - in_rest) * 255 : 0),
                 .flip = vdupq_n_u8(state->is_unsigned ? 0 : 0x80),
                 .step = vdupq_n_u8(64),
                 .has_rest = has_rest};
  if (row > 16 && row <= 64) {
    const size_t vectors = row <= 32 ? 2 : 4;
    for (size_t k = 0; k < vectors; k++) {
      by.at[k] = 16 * k <= by.last ? 16 * k : by.last;
      by.own[k] = vcgeq_u8(order, vdupq_n_u8((uint8_t)(16 * k - by.at[k])));
    }
    by.twice = vdupq_n_u32((uint32_t)(16 * vectors - row) * 255);
  }
  const uint8_t *from = (const uint8_t *)inputs[0] + begin * row;
  uint8_t *to = (uint8_t *)outputs[0] + begin * row;
  if (state->quarters <= 2 && state->high_quarters == 1)
    run_any(&by, from, to, end - begin, (kind){2, 1, 0});
  else if (state->high_quarters <= 2)
    run_any(&by, from, to, end - begin, (kind){4, 2, 0});
  else
    run_any(&by, from, to, end - begin, (kind){4, 4, 0});
}

ED_KERNEL(log_softmax, neon, ed_log_softmax_prepare, run);
