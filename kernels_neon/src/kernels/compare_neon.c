// SPDX-License-Identifier: Apache-2.0
// All six are GREATER or EQUAL, of inputs that may be swapped and with a result that may be turned round.
#include "compare.h"

#include "../tflite/options.h"
#include "pairs_neon.h"
#include "scaled_neon.h"

typedef struct {
  const ed_compare *state;
  ed_factors factors[2];
  int16x8_t zero_points[2];
  uint8x16_t turned;  // 1 where the result is turned round
} prepared;

static inline __attribute__((always_inline)) uint8x16_t sixteen(const prepared *by, uint8x16_t a, uint8x16_t b,
                                                                bool is_swapped, bool is_equal, bool is_unsigned) {
  ed_sixteen x = ed_widen(a, by->zero_points[0], is_unsigned), y = ed_widen(b, by->zero_points[1], is_unsigned);
  uint32x4_t holds[4];
  for (int i = 0; i < 4; i++) {
    int32x4_t first = ed_scaled_down_4(vshlq_n_s32(x.of[i], 8), &by->factors[0]);
    int32x4_t second = ed_scaled_down_4(vshlq_n_s32(y.of[i], 8), &by->factors[1]);
    holds[i] = is_equal ? vceqq_s32(first, second) : is_swapped ? vcgtq_s32(second, first) : vcgtq_s32(first, second);
  }
  uint16x8_t low = vcombine_u16(vmovn_u32(holds[0]), vmovn_u32(holds[1]));
  uint16x8_t high = vcombine_u16(vmovn_u32(holds[2]), vmovn_u32(holds[3]));
  uint8x16_t all = vandq_u8(vcombine_u8(vmovn_u16(low), vmovn_u16(high)), vdupq_n_u8(1));
  return veorq_u8(all, by->turned);
}

static inline uint8_t one(const prepared *by, uint8_t a, uint8_t b) {
  return ed_compare_of(by->state, a, b);
}

#define VARIANT(NAME, IS_SWAPPED, IS_EQUAL, IS_UNSIGNED)                                                            \
  static inline uint8x16_t NAME##_16(const prepared *by, uint8x16_t a, uint8x16_t b) {                              \
    return sixteen(by, a, b, IS_SWAPPED, IS_EQUAL, IS_UNSIGNED);                                                    \
  }                                                                                                                 \
  static void NAME(const prepared *by, const void *const *inputs, void *const *outputs, size_t begin, size_t end) { \
    ED_RUN_PAIRS(by->state->pairs, by, NAME##_16, one);                                                             \
  }

VARIANT(greater_signed, false, false, false)
VARIANT(greater_unsigned, false, false, true)
VARIANT(less_signed, true, false, false)
VARIANT(less_unsigned, true, false, true)
VARIANT(equal_signed, false, true, false)
VARIANT(equal_unsigned, false, true, true)

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  (void)scratch;
  const ed_compare *state = job->state;
  int32_t builtin = state->builtin;
  bool is_turned = builtin == kOpLessEqual || builtin == kOpGreaterEqual || builtin == kOpNotEqual;
  const prepared by = {
      state,
      {ed_factors_of(state->factors[0]), ed_factors_of(state->factors[1])},
      {vdupq_n_s16((int16_t)state->zero_points[0]), vdupq_n_s16((int16_t)state->zero_points[1])},
      vdupq_n_u8(is_turned),
  };
  bool is_unsigned = state->pairs.is_unsigned;
  if (builtin == kOpEqual || builtin == kOpNotEqual)
    (is_unsigned ? equal_unsigned : equal_signed)(&by, inputs, outputs, begin, end);
  else if (builtin == kOpGreater || builtin == kOpLessEqual)
    (is_unsigned ? greater_unsigned : greater_signed)(&by, inputs, outputs, begin, end);
  else
    (is_unsigned ? less_unsigned : less_signed)(&by, inputs, outputs, begin, end);
}

ED_KERNEL(compare, neon, ed_compare_prepare, run);
