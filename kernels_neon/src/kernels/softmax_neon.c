// SPDX-License-Identifier: Apache-2.0
// A row at a time: its greatest, its exponentials and their sum, and these scaled; of a long row the table is scaled
// instead, and looked up. Of a table no more quarters are looked up than hold what is not 0.
//
// Rows shorter than a vector are loaded and stored as one: what is stored behind a row, the next one overwrites.
#include <string.h>

#include "look_up_neon.h"
#include "neon.h"
#include "softmax.h"

typedef struct {
  const ed_softmax *state;
  ed_quarters low, high;  // bytes of the exponentials
  size_t whole;           // vectors of a row
  size_t last;            // where one more begins that ends with the row
  uint8x16_t rest;        // which bytes of it are in no other
  bool has_rest;
  uint8x16_t flip;  // what makes bytes that compare like their values
  uint8x16_t step;  // 64: from an index of a quarter to that of the next
  uint16_t *kept;   // exponentials of a row, and of its last vector
} prepared;

// What scales exponentials: ((x * left * mantissa >> 31) + half) >> 22.
typedef struct {
  uint16x8_t left;
  int32x4_t mantissa, half;
} scale;

// The stock kernel rounds twice, halves up: ((x * m + 2^23 >> 24) + 2^(right - 1)) >> right, with m of 24 bits. To cut
// bits off and then to add is to add and then to cut them off, so that this is the same as
// ((x * m >> 2 + right) + 2^(21 - right) + 2^21) >> 22. `right` is 7 to 22, as a sum is 65535 or more and has 31 bits;
// with 22 nothing comes near 1.
static inline scale scale_of(uint32_t sum) {
  const ed_factor factor = ed_softmax_factor((int32_t)sum);
  const int32_t left = 1 << (22 + factor.shift);
  return (scale){vdupq_n_u16((uint16_t)left), vdupq_n_s32(factor.mantissa), vdupq_n_s32((1 << 21) + (left >> 1))};
}

static inline uint16x8_t scaled_8(uint16x8_t x, const scale *by) {
  const uint32x4_t low = vmull_u16(vget_low_u16(x), vget_low_u16(by->left)), high = vmull_high_u16(x, by->left);
  const int16x4_t first = vaddhn_s32(vqdmulhq_s32(vreinterpretq_s32_u32(low), by->mantissa), by->half);
  return vreinterpretq_u16_s16(
      vaddhn_high_s32(first, vqdmulhq_s32(vreinterpretq_s32_u32(high), by->mantissa), by->half));
}

// Sixteen results, of which the stock kernel makes 255 from 256.
static inline uint8x16_t scaled(const uint16_t *from, const scale *by, uint8x16_t flip) {
  const uint16x8_t low = scaled_8(vld1q_u16(from), by), high = scaled_8(vld1q_u16(from + 8), by);
  return veorq_u8(vqshrn_high_n_u16(vqshrn_n_u16(low, 6), high, 6), flip);
}

static inline uint8x16_t greatest_of(const prepared *by, const uint8_t *from) {
  const uint8x16_t flip = by->flip;
  uint8x16_t most = vdupq_n_u8(0);
  if (by->has_rest) most = vandq_u8(veorq_u8(vld1q_u8(from + by->last), flip), by->rest);
  size_t i = 0;
  for (; i + 4 <= by->whole; i += 4) {
    const uint8x16x4_t next = vld1q_u8_x4(from + 16 * i);
    for (int k = 0; k < 4; k++) most = vmaxq_u8(most, veorq_u8(next.val[k], flip));
  }
  for (; i < by->whole; i++) most = vmaxq_u8(most, veorq_u8(vld1q_u8(from + 16 * i), flip));
  return veorq_u8(vdupq_n_u8(vmaxvq_u8(most)), flip);
}

// What a variant is for, known when it is compiled.
typedef struct {
  int far, near;  // quarters of tables
  enum { kVector, kShort, kLong } row;
  bool is_held;  // tables are in registers
} kind;

typedef struct {
  uint16x8_t of[2];
} sixteen;

// Nothing of what follows from the pointer is done before the vectors are there.
#ifdef __aarch64__
#define ED_AFTER(POINTER, V) \
  __asm__ volatile("" : "+r"(POINTER), "+w"((V)[0]), "+w"((V)[1]), "+w"((V)[2]), "+w"((V)[3]))
#else
#define ED_AFTER(POINTER, V) (void)(POINTER)
#endif

// Of one vector or four. Tables that are not held are read again each time, one after the other: left to itself, the
// compiler holds more of them than there are registers.
static inline __attribute__((always_inline)) void find(const prepared *by, const uint8_t *from, uint8x16_t greatest,
                                                       kind of, int count, sixteen *found) {
  const uint8_t *low_table = by->state->low, *high_table = by->state->high;
  const bool is_ordered = !of.is_held && count == 4;
  uint8x16_t index[4], low[4], high[4];
  for (int k = 0; k < count; k++) index[k] = vsubq_u8(greatest, vld1q_u8(from + 16 * k));
#pragma GCC unroll 4
  for (int i = 0; i < of.far; i++, low_table += 64, high_table += 64) {
    if (is_ordered) ED_AFTER(low_table, index);
    const uint8x16x4_t table = of.is_held ? by->low.quarter[i] : vld1q_u8_x4(low_table);
    for (int k = 0; k < count; k++) low[k] = i ? vqtbx4q_u8(low[k], table, index[k]) : vqtbl4q_u8(table, index[k]);
    if (i < of.near) {
      if (is_ordered) ED_AFTER(high_table, low);
      const uint8x16x4_t other = of.is_held ? by->high.quarter[i] : vld1q_u8_x4(high_table);
      for (int k = 0; k < count; k++) high[k] = i ? vqtbx4q_u8(high[k], other, index[k]) : vqtbl4q_u8(other, index[k]);
      if (is_ordered) ED_AFTER(low_table, high);
    } else if (is_ordered) {
      ED_AFTER(low_table, low);
    }
    if (i + 1 < of.far)
      for (int k = 0; k < count; k++) index[k] = vsubq_u8(index[k], by->step);
  }
  for (int k = 0; k < count; k++) {
    found[k].of[0] = vreinterpretq_u16_u8(vzip1q_u8(low[k], high[k]));
    found[k].of[1] = vreinterpretq_u16_u8(vzip2q_u8(low[k], high[k]));
  }
}

static inline uint32x4_t added(uint32x4_t sum, sixteen found) {
  return vpadalq_u16(vpadalq_u16(sum, found.of[0]), found.of[1]);
}

static inline void keep(uint16_t *to, sixteen found) {
  vst1q_u16(to, found.of[0]);
  vst1q_u16(to + 8, found.of[1]);
}

// The sum of a row's exponentials, which are kept if that is wanted.
static inline __attribute__((always_inline)) uint32_t sum_of(const prepared *by, const uint8_t *from,
                                                             uint8x16_t greatest, kind of) {
  uint32x4_t sums[2] = {vdupq_n_u32(0), vdupq_n_u32(0)};
  sixteen found[4];
  if (by->has_rest) {
    find(by, from + by->last, greatest, of, 1, found);
    if (of.row != kLong) keep(by->kept + 16 * by->whole, found[0]);
    found[0].of[0] = vandq_u16(found[0].of[0], vreinterpretq_u16_u8(vzip1q_u8(by->rest, by->rest)));
    found[0].of[1] = vandq_u16(found[0].of[1], vreinterpretq_u16_u8(vzip2q_u8(by->rest, by->rest)));
    sums[0] = added(sums[0], found[0]);
  }
  size_t i = 0;
  for (; i + 4 <= by->whole; i += 4) {
    find(by, from + 16 * i, greatest, of, 4, found);
    for (size_t k = 0; k < 4; k++) {
      sums[k % 2] = added(sums[k % 2], found[k]);
      if (of.row != kLong) keep(by->kept + 16 * (i + k), found[k]);
    }
  }
  for (; i < by->whole; i++) {
    find(by, from + 16 * i, greatest, of, 1, found);
    sums[0] = added(sums[0], found[0]);
    if (of.row != kLong) keep(by->kept + 16 * i, found[0]);
  }
  return vaddvq_u32(vaddq_u32(sums[0], sums[1]));
}

static inline __attribute__((always_inline)) void scale_row(const prepared *by, const scale *with, uint8_t *to) {
  const uint8x16_t flip = by->flip;
  // First, as it begins with what is in another vector too.
  if (by->has_rest) vst1q_u8(to + by->last, scaled(by->kept + 16 * by->whole, with, flip));
  size_t i = 0;
  for (; i + 4 <= by->whole; i += 4) {
    uint8x16_t found[4];
    for (size_t k = 0; k < 4; k++) found[k] = scaled(by->kept + 16 * (i + k), with, flip);
    for (size_t k = 0; k < 4; k++) vst1q_u8(to + 16 * (i + k), found[k]);
  }
  for (; i < by->whole; i++) vst1q_u8(to + 16 * i, scaled(by->kept + 16 * i, with, flip));
}

static inline __attribute__((always_inline)) uint8x16_t result(const prepared *by, const ed_quarters *table,
                                                               const uint8_t *from, uint8x16_t greatest, int near) {
  uint8x16_t index[4] = {vsubq_u8(greatest, vld1q_u8(from))};
  for (int i = 1; i < near; i++) index[i] = vsubq_u8(index[i - 1], by->step);
  return veorq_u8(ed_look_up_in(table, near, index), by->flip);
}

static inline __attribute__((always_inline)) void look_row_up(const prepared *by, const scale *with,
                                                              const uint8_t *from, uint8_t *to, uint8x16_t greatest,
                                                              int near) {
  uint8_t results[256];
  for (int i = 0; i < 64 * near; i += 16)
    vst1q_u8(results + i, scaled(by->state->exponential + i, with, vdupq_n_u8(0)));
  ed_quarters table;
  for (int i = 0; i < near; i++) table.quarter[i] = vld1q_u8_x4(results + 64 * i);
  size_t i = 0;
  for (; i + 4 <= by->whole; i += 4) {
    uint8x16_t found[4];
    for (size_t k = 0; k < 4; k++) found[k] = result(by, &table, from + 16 * (i + k), greatest, near);
    for (size_t k = 0; k < 4; k++) vst1q_u8(to + 16 * (i + k), found[k]);
  }
  for (; i < by->whole; i++) vst1q_u8(to + 16 * i, result(by, &table, from + 16 * i, greatest, near));
  if (by->has_rest) vst1q_u8(to + by->last, result(by, &table, from + by->last, greatest, near));
}

// What is shared is copied, so that it is surely not what is written to.
static inline __attribute__((always_inline)) void run_rows(const prepared *shared, const uint8_t *from, uint8_t *to,
                                                           size_t rows, kind of) {
  prepared by = *shared;
  if (of.row == kVector) by.whole = 0, by.has_rest = true;  // as it is, for the compiler to see
  for (int i = 0; of.is_held && i < of.far; i++) by.low.quarter[i] = vld1q_u8_x4(by.state->low + 64 * i);
  for (int i = 0; of.is_held && i < of.near; i++) by.high.quarter[i] = vld1q_u8_x4(by.state->high + 64 * i);
  for (; rows > 0; rows--, from += by.state->row, to += by.state->row) {
    const uint8x16_t greatest = greatest_of(&by, from);
    const scale with = scale_of(sum_of(&by, from, greatest, of));
    if (of.row == kLong)
      look_row_up(&by, &with, from, to, greatest, of.near);
    else
      scale_row(&by, &with, to);
  }
}

// Rows are long where it is less to scale the table.
static inline __attribute__((always_inline)) void run_any(const prepared *by, const uint8_t *from, uint8_t *to,
                                                          size_t rows, int far, int near) {
  if (by->state->row <= 16)
    run_rows(by, from, to, rows, (kind){far, near, kVector, true});
  else if (by->state->row < 128 * (size_t)near)
    run_rows(by, from, to, rows, (kind){far, near, kShort, far + near <= 3});
  else
    run_rows(by, from, to, rows, (kind){far, near, kLong, far + near <= 3});
}

static void run_whole(const prepared *by, const uint8_t *from, uint8_t *to, size_t rows) {
  if (by->state->far <= 128 && by->state->near <= 64)
    run_any(by, from, to, rows, 2, 1);
  else if (by->state->near <= 128)
    run_any(by, from, to, rows, 4, 2);
  else
    run_any(by, from, to, rows, 4, 4);
}

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  const ed_softmax *state = job->state;
  const size_t row = state->row;
  static const uint8_t kOrder[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const uint8x16_t order = vld1q_u8(kOrder), rest = vdupq_n_u8((uint8_t)(row == 16 ? 16 : row % 16));
  prepared by = {.state = state,
                 .whole = row <= 16 ? 0 : row / 16,
                 .last = row <= 16 ? 0 : row - 16,
                 .rest = row <= 16 ? vcltq_u8(order, rest) : vcgeq_u8(order, vsubq_u8(vdupq_n_u8(16), rest)),
                 .has_rest = row <= 16 || row % 16 != 0,
                 .flip = vdupq_n_u8(state->is_unsigned ? 0 : 0x80),
                 .step = vdupq_n_u8(64),
                 .kept = scratch};
  const uint8_t *from = (const uint8_t *)inputs[0] + begin * row;
  uint8_t *to = (uint8_t *)outputs[0] + begin * row;
  const size_t bytes = (end - begin) * row, rows = row >= 16 ? end - begin : bytes < 16 ? 0 : (bytes - 16) / row + 1;
  run_whole(&by, from, to, rows);
  const size_t done = rows * row;
  if (done == bytes) return;
  // Less than a vector is left: fewer than 16 rows.
  uint8_t last[32] = {0}, results[32];
  memcpy(last, from + done, bytes - done);
  run_whole(&by, last, results, end - begin - rows);
  memcpy(to + done, results, bytes - done);
}

ED_KERNEL(softmax, neon, ed_softmax_prepare, run);
