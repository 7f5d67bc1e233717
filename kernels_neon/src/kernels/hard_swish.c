// SPDX-License-Identifier: Apache-2.0
#include "hard_swish.h"

#include "requantise.h"

// A factor with a mantissa of 16 bits.
static ed_factor coarse(float real) {
  ed_factor fine = ed_factor_of((double)real);
  int32_t most = INT32_MAX - (1 << 15);
  return (ed_factor){fine.mantissa >= most ? INT16_MAX : (fine.mantissa + (1 << 15)) >> 16, fine.shift};
}

static int32_t rounded_product(int32_t a, int32_t b) {
  if (a == INT16_MIN && b == INT16_MIN) return INT16_MAX;
  int32_t product = a * b;
  return (product + (product >= 0 ? 1 << 14 : 1 - (1 << 14))) / (1 << 15);
}

static int32_t cut_product(int32_t a, int32_t b, bool to_zero) {
  if (a == INT16_MIN && b == INT16_MIN) return INT16_MAX;
  return to_zero ? a * b / (1 << 15) : a * b >> 15;
}

static int32_t shifted_right(int32_t x, int by, bool away) {
  if (by == 0) return x;
  return away ? ed_divide_by_power(x, by) : (x + (1 << (by - 1))) >> by;
}

static int32_t shifted_left(int32_t x, int by) {
  return ed_clamp(by > 16 ? (x > 0) * INT16_MAX + (x < 0) * INT16_MIN : x * (1 << by), INT16_MIN, INT16_MAX);
}

int32_t ed_hard_swish(const ed_op *op, int32_t x, bool is_left_over) {
  const float unit = 1.0f / 128 * op->inputs[0].scale;  // the input gets seven more bits
  ed_factor output = coarse(unit / op->outputs[0].scale), gate = coarse(unit / (3.0f / 32768));
  int32_t fine = x * 128, value = rounded_product(fine, output.mantissa);
  // relu6(x + 3) / 6 as a fraction of 15 bits, saturated after all but one bit of the shift.
  int32_t open = fine;
  if (gate.shift > 0) open = shifted_left(open, gate.shift - 1);
  open = rounded_product(open, gate.mantissa);
  if (gate.shift > 0) open = shifted_left(open, 1);
  if (gate.shift < 0) open = shifted_right(open, -gate.shift, is_left_over);
  open = (open + (1 << 15)) >> 1;
  return op->outputs[0].zero_point + shifted_right(cut_product(open, value, is_left_over), -output.shift, is_left_over);
}
