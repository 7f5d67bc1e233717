// SPDX-License-Identifier: Apache-2.0
#include "look_up_neon.h"
#include "lookup.h"
#include "neon.h"

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  (void)scratch;
  const ed_table *table = job->state;
  const uint8_t *from = inputs[0];
  uint8_t *to = outputs[0];
  size_t i = begin, most = end < table->left_over ? end : table->left_over;
  if (most >= begin + 64) {
    const ed_quarters quarters = ed_quarters_of(table->of);
    for (; i + 64 <= most; i += 64) {
      for (size_t k = 0; k < 64; k += 16) vst1q_u8(to + i + k, ed_look_up(&quarters, vld1q_u8(from + i + k)));
    }
  }
  for (; i < most; i++) to[i] = table->of[from[i]];
  for (; i < end; i++) to[i] = table->of_left_over[from[i]];
}

ED_KERNEL(lookup, neon, ed_lookup_prepare, run);
