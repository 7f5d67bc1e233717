// SPDX-License-Identifier: Apache-2.0
// What the NEON kernel of LOG_SOFTMAX makes of vectors: exponentials, logarithms of their sums, results.
#ifndef ED_LOG_SOFTMAX_NEON_H
#define ED_LOG_SOFTMAX_NEON_H

#include "log_softmax.h"
#include "neon.h"

enum { ROWS = 4 };  // at a time

typedef struct {
  const ed_log_softmax *state;
  size_t whole;       // vectors of a row
  size_t last;        // where one more begins that ends with the row
  uint8x16_t rest;    // which bytes of it are in no other
  size_t at[4];       // where the vectors of rows begin that have no more
  uint8x16_t own[4];  // which bytes of these are in none before
  uint32x4_t twice;   // what the other bytes add to each sum
  uint8x16_t flip;    // what makes bytes that compare like their values
  uint8x16_t step;    // 64: from an index of a quarter to that of the next
  bool has_rest;
} prepared;

// What a variant is for, known when it is compiled: quarters of tables, and of those of high bytes; vectors of a row,
// if it has no more than four.
typedef struct {
  int quarters, high, vectors;
} kind;

typedef struct {
  uint8x16_t of[4];
} four;

#define ED_INLINE static inline __attribute__((always_inline))

// Nothing of what follows from the pointer is done before the vectors are there: left to itself, the compiler holds
// more of a table than there are registers.
#ifdef __aarch64__
#define ED_AFTER(POINTER, V, COUNT)                                                                       \
  do {                                                                                                    \
    __asm__ volatile("" : "+r"(POINTER), "+w"((V)[0]));                                                   \
    for (int after = 1; after < (COUNT); after++) __asm__ volatile("" : "+r"(POINTER), "+w"((V)[after])); \
  } while (0)
#else
#define ED_AFTER(POINTER, V, COUNT) (void)(POINTER)
#endif

// Looks one vector or four up in `tables`, which follow one another in each quarter of `stride` bytes.
ED_INLINE void look_up(const uint8_t *table, int tables, size_t stride, const four *below, uint8x16_t step, kind of,
                       int count, four *found) {
  four index = *below;
#pragma GCC unroll 4
  for (int i = 0; i < of.quarters; i++, table += stride - 64 * (size_t)tables) {
#pragma GCC unroll 3
    for (int t = 0; t < tables; t++) {
      if (t == 2 && i >= of.high) {
        table += 64;
        continue;
      }
      ED_AFTER(table, index.of, count);
      const uint8x16x4_t quarter = vld1q_u8_x4(table);
      table += 64;
      for (int k = 0; k < count; k++)
        found[t].of[k] = i ? vqtbx4q_u8(found[t].of[k], quarter, index.of[k]) : vqtbl4q_u8(quarter, index.of[k]);
      ED_AFTER(table, found[t].of, count);
    }
    if (i + 1 < of.quarters)
      for (int k = 0; k < count; k++) index.of[k] = vsubq_u8(index.of[k], step);
  }
}

ED_INLINE void exponentials(const prepared *by, const four *below, kind of, int count, four found[3]) {
  look_up(by->state->fixed[0][0], 3, sizeof by->state->fixed[0], below, by->step, of, count, found);
}

ED_INLINE uint8x16_t result(uint8x16_t left, uint8x16_t fraction, uint8x16_t less, uint8x16_t last) {
  return vqsubq_u8(left, vsubq_u8(less, vcgtq_u8(fraction, last)));
}

ED_INLINE void results(const prepared *by, const four *below, const four *less, const four *last, kind of, int count,
                       four *made) {
  four parts[2];
  look_up(by->state->parts[0][0], 2, sizeof by->state->parts[0], below, by->step, of, count, parts);
  for (int k = 0; k < count; k++)
    made->of[k] = veorq_u8(result(parts[0].of[k], parts[1].of[k], less->of[k], last->of[k]), by->flip);
}

// From memory: the compiler would make each anew every time, in three instructions.
enum { UNIT, UNIT_2, UNIT_3, SERIES_9, SERIES_7, SERIES_5, SERIES_3, LOGARITHM_2, CONSTANTS };
#define ED_FOUR(X) {X, X, X, X}
static const float kConstants[CONSTANTS][4] = {
    ED_FOUR(1.0f / 0xffffff), ED_FOUR(256.0f / 0xffffff), ED_FOUR(65536.0f / 0xffffff),
    ED_FOUR(2.0f / 9),        ED_FOUR(2.0f / 7),          ED_FOUR(2.0f / 5),
    ED_FOUR(2.0f / 3),        ED_FOUR(0.693147181f),
};

// Natural; of 1 and more. From 2/3 to 4/3 as a series of (x - 1) / (x + 1), which ends where terms are below 2^-27.
ED_INLINE float32x4_t logarithms(float32x4_t x, const float constants[CONSTANTS][4]) {
  const int32x4_t bits = vreinterpretq_s32_f32(x);
  const int32x4_t power = vshrq_n_s32(vsubq_s32(bits, vdupq_n_s32(0x3f2aaaab)), 23);
  const float32x4_t mantissa = vreinterpretq_f32_s32(vsubq_s32(bits, vshlq_n_s32(power, 23))), one = vdupq_n_f32(1);
  const float32x4_t ratio = vdivq_f32(vsubq_f32(mantissa, one), vaddq_f32(mantissa, one));
  const float32x4_t square = vmulq_f32(ratio, ratio);
  float32x4_t series = vfmaq_f32(vld1q_f32(constants[SERIES_7]), square, vld1q_f32(constants[SERIES_9]));
  series = vfmaq_f32(vld1q_f32(constants[SERIES_5]), square, series);
  series = vfmaq_f32(vld1q_f32(constants[SERIES_3]), square, series);
  series = vfmaq_f32(vdupq_n_f32(2), square, series);
  return vfmaq_f32(vmulq_f32(ratio, series), vcvtq_f32_s32(power), vld1q_f32(constants[LOGARITHM_2]));
}

// Of four rows.
typedef struct {
  float halves[ROWS];  // 16 logarithms, and a half
  uint32_t whole[ROWS], bucket[ROWS];
} logs;

// `sums` are of bytes, the low ones first.
ED_INLINE void take_logs(const prepared *by, const uint32x4_t sums[3], logs *made) {
  const float (*constants)[4] = kConstants;
  __asm__("" : "+r"(constants));
  float32x4_t sum = vmulq_f32(vcvtq_f32_u32(vsubq_u32(sums[2], by->twice)), vld1q_f32(constants[UNIT_3]));
  sum = vfmaq_f32(sum, vcvtq_f32_u32(vsubq_u32(sums[1], by->twice)), vld1q_f32(constants[UNIT_2]));
  sum = vfmaq_f32(sum, vcvtq_f32_u32(vsubq_u32(sums[0], by->twice)), vld1q_f32(constants[UNIT]));
  const float32x4_t halves = vfmaq_f32(vdupq_n_f32(0.5f), logarithms(sum, constants), vdupq_n_f32(16));
  const float32x4_t whole = vrndmq_f32(halves), threshold = vaddq_f32(vsubq_f32(whole, halves), vdupq_n_f32(1));
  vst1q_f32(made->halves, halves);
  vst1q_u32(made->whole, vcvtq_u32_f32(whole));
  vst1q_u32(made->bucket, vcvtq_u32_f32(vmulq_f32(threshold, vdupq_n_f32((float)ED_LOG_BUCKETS))));
}

#endif
