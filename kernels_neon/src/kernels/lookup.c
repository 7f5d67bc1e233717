// SPDX-License-Identifier: Apache-2.0
#include "lookup.h"

#include <math.h>
#include <stdlib.h>

#include "../tflite/options.h"
#include "expect.h"
#include "hard_swish.h"
#include "reject.h"
#include "requantise.h"

// A value of the input, less its zero point, to the output's; the caller clamps.
typedef int32_t (*formula)(const ed_op *op, int32_t x);

static ed_factor ratio(const ed_op *op) {
  return ed_factor_of((double)(op->inputs[0].scale / op->outputs[0].scale));
}

static int32_t rescaled(const ed_op *op, int32_t x) {
  return ed_sum(op->outputs[0].zero_point, ed_scaled(x, ratio(op)));
}

static int32_t between(const ed_op *op, int32_t x, float low, float high) {
  const ed_tensor *to = &op->outputs[0];
  int32_t found = rescaled(op, x), zero_point = to->zero_point;
  int32_t least = ed_least(to->type), most = least + 255;
  // A bound that the output's type cannot hold may be far off: the float is clamped before it becomes an integer.
  float bottom = fmaxf(roundf(low / to->scale), -512), top = fminf(roundf(high / to->scale), 512);
  if (zero_point + (int32_t)bottom > least) least = zero_point + (int32_t)bottom;
  if (zero_point + (int32_t)top < most) most = zero_point + (int32_t)top;
  if (found > most) found = most;  // the order matters where the bounds cross
  return found < least ? least : found;
}

static int32_t relu(const ed_op *op, int32_t x) {
  return between(op, x, 0, INFINITY);
}

static int32_t relu6(const ed_op *op, int32_t x) {
  return between(op, x, 0, 6);
}

static int32_t relu_n1_to_1(const ed_op *op, int32_t x) {
  return between(op, x, -1, 1);
}

static int32_t absolute(const ed_op *op, int32_t x) {
  x = abs(x);
  return op->inputs[0].scale == op->outputs[0].scale ? op->outputs[0].zero_point + x : rescaled(op, x);
}

static int32_t exponential(const ed_op *op, int32_t x) {
  const ed_tensor *to = &op->outputs[0];
  float inverse = 1 / to->scale, value = expf(op->inputs[0].scale * (float)x);
  float found = roundf(value * inverse) + (float)to->zero_point;
  return (int32_t)fminf(fmaxf(found, -512), 512);
}

static int32_t hard_swish(const ed_op *op, int32_t x) {
  return ed_hard_swish(op, x, false);
}

static int32_t hard_swish_left_over(const ed_op *op, int32_t x) {
  return ed_hard_swish(op, x, true);
}

static formula formula_of(int32_t builtin) {
  switch (builtin) {
    case kOpRelu:
      return relu;
    case kOpRelu6:
      return relu6;
    case kOpReluN1To1:
      return relu_n1_to_1;
    case kOpAbs:
      return absolute;
    case kOpExp:
      return exponential;
    case kOpHardSwish:
      return hard_swish;
    default:
      return NULL;
  }
}

static void fill(uint8_t *table, const ed_op *op, formula compute) {
  int32_t least = ed_least(op->inputs[0].type), zero_point = op->inputs[0].zero_point;
  for (int32_t value = least; value <= least + 255; value++)
    table[(uint8_t)value] = (uint8_t)ed_clamp(compute(op, value - zero_point), least, least + 255);
}

bool ed_lookup_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes) {
  formula compute = formula_of(op->builtin);
  if (!compute) return ed_reject(reason, reason_bytes, "expected an op of one byte, got operator %d", op->builtin);
  if (!ed_expect_operands(op, 1, 1, reason, reason_bytes)) return false;
  const ed_tensor *from = &op->inputs[0], *to = &op->outputs[0];
  if (!ed_expect_bytes(from, reason, reason_bytes) || !ed_expect_bytes(to, reason, reason_bytes) ||
      !ed_expect_type(to, from->type, reason, reason_bytes) || !ed_expect_same_shape(from, to, reason, reason_bytes))
    return false;
  bool is_signed_only = op->builtin == kOpAbs || op->builtin == kOpExp;
  if (is_signed_only && !ed_expect_type(from, kTfLiteInt8, reason, reason_bytes)) return false;
  float by = from->scale / to->scale;
  if (op->builtin == kOpHardSwish && !(by >= 0.002f && by <= 127))
    return ed_reject(reason, reason_bytes, "expected an input scale of 0.002 to 127 times the output's, got %g",
                     (double)by);
  ed_table *table = malloc(sizeof *table);
  if (!table) return ed_reject(reason, reason_bytes, "out of memory");
  size_t elements = ed_count(to);
  bool is_mixed = op->builtin == kOpHardSwish;
  table->left_over = is_mixed ? elements / ED_HARD_SWISH_BLOCK * ED_HARD_SWISH_BLOCK : elements;
  fill(table->of, op, compute);
  fill(table->of_left_over, op, is_mixed ? hard_swish_left_over : compute);
  *job = (ed_job){.state = table, .units = elements, .unit_bytes = 2};
  return true;
}

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  (void)scratch;
  const ed_table *table = job->state;
  const uint8_t *from = inputs[0];
  uint8_t *to = outputs[0];
  for (size_t i = begin; i < end; i++) to[i] = (i < table->left_over ? table->of : table->of_left_over)[from[i]];
}

ED_KERNEL(lookup, scalar, ed_lookup_prepare, run);
