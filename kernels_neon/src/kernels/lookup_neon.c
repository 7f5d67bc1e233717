// SPDX-License-Identifier: Apache-2.0
#include "lookup.h"
#include "neon.h"

// The table fills half of the registers. An index outside of a quarter changes nothing of what is there.
static inline uint8x16_t look_up(const uint8x16x4_t quarter[4], uint8x16_t index) {
  uint8x16_t found = vqtbl4q_u8(quarter[0], index);
  found = vqtbx4q_u8(found, quarter[1], vsubq_u8(index, vdupq_n_u8(64)));
  found = vqtbx4q_u8(found, quarter[2], vsubq_u8(index, vdupq_n_u8(128)));
  return vqtbx4q_u8(found, quarter[3], vsubq_u8(index, vdupq_n_u8(192)));
}

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  (void)scratch;
  const ed_table *table = job->state;
  const uint8_t *from = inputs[0];
  uint8_t *to = outputs[0];
  size_t i = begin, most = end < table->left_over ? end : table->left_over;
  if (most >= begin + 64) {
    uint8x16x4_t quarter[4];
    for (int k = 0; k < 4; k++) quarter[k] = vld1q_u8_x4(table->of + 64 * k);
    for (; i + 64 <= most; i += 64) {
      for (size_t k = 0; k < 64; k += 16) vst1q_u8(to + i + k, look_up(quarter, vld1q_u8(from + i + k)));
    }
  }
  for (; i < most; i++) to[i] = table->of[from[i]];
  for (; i < end; i++) to[i] = table->of_left_over[from[i]];
}

ED_KERNEL(lookup, neon, ed_lookup_prepare, run);
