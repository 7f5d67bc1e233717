// SPDX-License-Identifier: Apache-2.0
// Scaling of integers as TFLite's built-in kernels do it (`kernels/internal/quantization_util.cc`, `common.h`): a real
// factor is a 31-bit mantissa and a power of two; the product is rounded twice, the second time half away from zero.
//
// Traps: other paths of the same runtime round once, or half up. What does not fit 32 bits before the product wraps, as
// the compiled code on ARM and x86-64 does.
#ifndef ED_REQUANTISE_H
#define ED_REQUANTISE_H

#include <stdint.h>

#include "kernel.h"

typedef struct {
  int32_t mantissa;
  int shift;  // to the left; negative to the right
} ed_factor;

ed_factor ed_factor_of(double real);

// The nearest of high halves of a doubled product, halves up.
static inline int32_t ed_high_product(int32_t a, int32_t b) {
  if (a == INT32_MIN && b == INT32_MIN) return INT32_MAX;
  return (int32_t)(((int64_t)a * b + (1 << 30)) >> 31);
}

// Divided by a power of two, halves away from zero.
static inline int32_t ed_divide_by_power(int32_t x, int exponent) {
  int32_t mask = (int32_t)(((int64_t)1 << exponent) - 1);
  return (x >> exponent) + ((x & mask) > (mask >> 1) + (x < 0));
}

static inline int32_t ed_scaled(int32_t x, ed_factor factor) {
  int left = factor.shift > 0 ? factor.shift & 31 : 0, right = factor.shift > 0 ? 0 : -factor.shift;
  return ed_divide_by_power(ed_high_product((int32_t)((uint32_t)x << left), factor.mantissa), right);
}

// A sum that wraps, as that of the compiled code does.
static inline int32_t ed_sum(int32_t a, int32_t b) {
  return (int32_t)((uint32_t)a + (uint32_t)b);
}

static inline int32_t ed_clamp(int32_t x, int32_t low, int32_t high) {
  return x < low ? low : x > high ? high : x;
}

// The smallest value of an 8-bit type; the largest is 255 more.
static inline int32_t ed_least(TfLiteType type) {
  return type == kTfLiteUInt8 ? 0 : -128;
}

#endif
