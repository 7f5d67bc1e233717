// SPDX-License-Identifier: Apache-2.0
#include "flip_sign.h"
#include "neon.h"

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  (void)job, (void)scratch;
  const uint8_t *from = inputs[0];
  uint8_t *to = outputs[0];
  const uint8x16_t top = vdupq_n_u8(0x80);
  size_t i = begin;
  for (; i + 128 <= end; i += 128) {
    uint8x16x4_t first = vld1q_u8_x4(from + i), second = vld1q_u8_x4(from + i + 64);
    for (int k = 0; k < 4; k++) {
      first.val[k] = veorq_u8(first.val[k], top);
      second.val[k] = veorq_u8(second.val[k], top);
    }
    vst1q_u8_x4(to + i, first);
    vst1q_u8_x4(to + i + 64, second);
  }
  for (; i + 16 <= end; i += 16) vst1q_u8(to + i, veorq_u8(vld1q_u8(from + i), top));
  for (; i < end; i++) to[i] = from[i] ^ 0x80;
}

ED_KERNEL(flip_sign, neon, ed_flip_sign_prepare, run);
