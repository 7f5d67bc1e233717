// SPDX-License-Identifier: Apache-2.0
// Sixteen rows at a time; what is multiplied with the zeros behind the weights is any.
#include "../tflite/options.h"
#include "dfl.h"
#include "neon.h"

static inline int32x4_t products(int32x4_t sum, int8x16_t bins, int8x16_t weights) {
  sum = vpadalq_s16(sum, vmull_s8(vget_low_s8(bins), vget_low_s8(weights)));
  return vpadalq_s16(sum, vmull_high_s8(bins, weights));
}

static inline int32x4_t sum_of(const ed_dfl *state, const int8_t *bins, int8x16_t first, bool is_vector) {
  int32x4_t sum = products(vdupq_n_s32(0), vld1q_s8(bins), first);
  if (is_vector) return sum;
  for (size_t k = 16; k < state->row; k += 16) sum = products(sum, vld1q_s8(bins + k), vld1q_s8(state->weights + k));
  return sum;
}

static inline __attribute__((always_inline)) void means_of(const ed_dfl *state, const int8_t *bins, int8_t *to,
                                                           size_t rows, bool is_vector) {
  const int8x16_t first = vld1q_s8(state->weights);
  const int32x4_t bias = vdupq_n_s32(state->bias);
  const int16x8_t zero_point = vdupq_n_s16((int16_t)state->zero_point);
  const size_t row = state->row;
  for (size_t i = 0; i < rows; i += 16) {
    int32x4_t quads[4];
    for (int k = 0; k < 4; k++, bins += 4 * row) {
      const int32x4_t low =
          vpaddq_s32(sum_of(state, bins, first, is_vector), sum_of(state, bins + row, first, is_vector));
      const int32x4_t high =
          vpaddq_s32(sum_of(state, bins + 2 * row, first, is_vector), sum_of(state, bins + 3 * row, first, is_vector));
      const int32x4_t sum = vaddq_s32(vpaddq_s32(low, high), bias);
      quads[k] = vcvtnq_s32_f32(vmulq_n_f32(vcvtq_f32_s32(sum), state->scale));
    }
    const int16x8_t a = vqaddq_s16(vqmovn_high_s32(vqmovn_s32(quads[0]), quads[1]), zero_point);
    const int16x8_t b = vqaddq_s16(vqmovn_high_s32(vqmovn_s32(quads[2]), quads[3]), zero_point);
    const int8x16_t found = vqmovn_high_s16(vqmovn_s16(a), b);
    if (rows - i >= 16) {
      vst1q_s8(to + i, found);
    } else {
      int8_t last[16];
      vst1q_s8(last, found);
      memcpy(to + i, last, rows - i);
    }
  }
}

static void means(const ed_dfl *state, const int8_t *bins, int8_t *to, size_t rows) {
  if (state->row <= 16)
    means_of(state, bins, to, rows, true);
  else
    means_of(state, bins, to, rows, false);
}

extern const ed_kernel ed_softmax_neon;

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  ed_dfl_run(job, &ed_softmax_neon, means, inputs[0], outputs[0], begin, end, scratch);
}

ED_KERNEL_WITH(kOpSoftmax, dfl, neon, ed_dfl_prepare, run);
