// SPDX-License-Identifier: Apache-2.0
// A loop over pairs, sixteen at a time where the second input has so many next to one another.
#ifndef ED_PAIRS_NEON_H
#define ED_PAIRS_NEON_H

#include "neon.h"
#include "pairs.h"

// PREPARED is any expression that `WIDE(PREPARED, a, b)` and `ONE(PREPARED, a, b)` take, vectors or bytes.
#define ED_RUN_PAIRS(PAIRS, PREPARED, WIDE, ONE)                                                \
  do {                                                                                          \
    const uint8_t *a = inputs[0], *b = inputs[1];                                               \
    uint8_t *to = outputs[0];                                                                   \
    size_t period = (PAIRS).period, i = begin;                                                  \
    if (period == 1) {                                                                          \
      const uint8x16_t second = vdupq_n_u8(*b);                                                 \
      for (; i + 16 <= end; i += 16) vst1q_u8(to + i, WIDE(PREPARED, vld1q_u8(a + i), second)); \
      for (; i < end; i++) to[i] = ONE(PREPARED, a[i], *b);                                     \
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
