// SPDX-License-Identifier: Apache-2.0
// A loop over pairs, sixteen at a time, over a copy of a short second input that is repeated.
#ifndef ED_PAIRS_NEON_H
#define ED_PAIRS_NEON_H

#include <string.h>

#include "neon.h"
#include "pairs.h"

enum { ED_PAIRS_SHORT = 256 };  // of longer ones no copy is made: the elements after the last sixteen are few

// The second input and the sixteen that follow on it, when it is repeated.
static inline void ed_pairs_repeat(const ed_pairs *pairs, const uint8_t *second, uint8_t *to) {
  memcpy(to, second, pairs->period);
  for (size_t i = 0; i < 16; i++) to[pairs->period + i] = to[i];
}

// PREPARED is any expression that `WIDE(PREPARED, a, b)` and `ONE(PREPARED, a, b)` take, vectors or bytes.
#define ED_RUN_PAIRS(PAIRS, PREPARED, WIDE, ONE)                                                \
  do {                                                                                          \
    const uint8_t *a = inputs[0], *b = inputs[1];                                               \
    uint8_t *to = outputs[0];                                                                   \
    size_t period = (PAIRS).period, i = begin;                                                  \
    if (period == 1) {                                                                          \
      const uint8x16_t second = vdupq_n_u8(*b);                                                 \
      for (; i + 16 <= end; i += 16) vst1q_u8(to + i, WIDE(PREPARED, vld1q_u8(a + i), second)); \
    } else if (period <= ED_PAIRS_SHORT) {                                                      \
      uint8_t repeated[ED_PAIRS_SHORT + 16];                                                    \
      ed_pairs_repeat(&(PAIRS), b, repeated);                                                   \
      for (size_t at = i % period, step = 16 % period; i + 16 <= end; i += 16) {                \
        vst1q_u8(to + i, WIDE(PREPARED, vld1q_u8(a + i), vld1q_u8(repeated + at)));             \
        at += step;                                                                             \
        at -= at >= period ? period : 0;                                                        \
      }                                                                                         \
    }                                                                                           \
    while (i < end) {                                                                           \
      size_t at = i % period, run_end = end - i < period - at ? end : i + period - at;          \
      const uint8_t *second = b + at;                                                           \
      for (; i + 16 <= run_end; i += 16, second += 16)                                          \
        vst1q_u8(to + i, WIDE(PREPARED, vld1q_u8(a + i), vld1q_u8(second)));                    \
      for (; i < run_end; i++) to[i] = ONE(PREPARED, a[i], *second++);                          \
    }                                                                                           \
  } while (0)

#endif
