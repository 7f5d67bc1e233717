// SPDX-License-Identifier: Apache-2.0
#include "requantise.h"

#include <math.h>

ed_factor ed_factor_of(double real) {
  if (real == 0) return (ed_factor){0, 0};
  int shift;
  double mantissa = frexp(real, &shift);
  int64_t fixed = llround(mantissa * 2147483648.0);
  if (fixed == (int64_t)1 << 31) {
    fixed /= 2;
    shift++;
  }
  if (shift < -31) return (ed_factor){0, 0};
  return (ed_factor){(int32_t)fixed, shift};
}
