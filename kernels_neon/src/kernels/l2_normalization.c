// SPDX-License-Identifier: Apache-2.0
#include "l2_normalization.h"

#include <stdlib.h>

#include "../tflite/options.h"
#include "expect.h"
#include "reject.h"

// Elements of a row: fewer are no faster than in the stock runtime, and the sum of squares fits 31 bits.
enum { LEAST = 16, MOST = 1 << 15 };

bool ed_l2_normalization_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes) {
  if (op->builtin != kOpL2Normalization)
    return ed_reject(reason, reason_bytes, "expected L2_NORMALIZATION, got operator %d", op->builtin);
  if (!ed_expect_operands(op, 1, 1, reason, reason_bytes)) return false;
  const ed_tensor *from = &op->inputs[0], *to = &op->outputs[0];
  const TfLiteL2NormParams *params = op->params;
  if (!ed_expect_bytes(from, reason, reason_bytes) || !ed_expect_bytes(to, reason, reason_bytes) ||
      !ed_expect_type(to, from->type, reason, reason_bytes) || !ed_expect_same_shape(from, to, reason, reason_bytes))
    return false;
  size_t row = from->rank ? (size_t)from->dims[from->rank - 1] : 0;
  if (row < LEAST || row >= MOST || from->rank > 4 || (params && params->activation != kTfLiteActNone))
    return ed_reject(reason, reason_bytes, "expected rows of %d to %d elements, in 4 dimensions, no activation", LEAST,
                     MOST - 1);
  if (to->scale != 1.0f / 128 || to->zero_point != ed_least(to->type) + 128)
    return ed_reject(reason, reason_bytes, "expected an output of -1 to 127/128");
  ed_l2_normalization *state = malloc(sizeof *state);
  if (!state) return ed_reject(reason, reason_bytes, "out of memory");
  *state = (ed_l2_normalization){row, from->zero_point, from->type == kTfLiteUInt8};
  *job = (ed_job){.state = state, .units = ed_count(from) / row, .unit_bytes = 2 * row};
  return true;
}

static int32_t shifted_left(int32_t x, int by) {
  int64_t wide = (int64_t)x * (1 << by);
  return wide > INT32_MAX ? INT32_MAX : wide < INT32_MIN ? INT32_MIN : (int32_t)wide;
}

ed_factor ed_l2_factor(int32_t squares, bool is_unsigned) {
  int up = is_unsigned ? 0 : 7;  // uint8 values are 7 bits up already
  if (squares <= 1) return (ed_factor){INT32_MAX, up};
  int right = 11;
  for (; squares >= 1 << 29; squares /= 4) right++;
  int pairs = (__builtin_clz((unsigned)squares) - 1) / 2 - 1;
  right -= pairs;
  squares *= 1 << 2 * pairs;
  // 3 bits before the point.
  int32_t half = ed_divide_by_power(squares >> 1, 1), root = 1 << 28;
  const int32_t three_halves = (1 << 28) + (1 << 27);
  for (int i = 0; i < 5; i++) {
    int32_t cube = shifted_left(ed_high_product(ed_high_product(root, root), root), 6);
    root = shifted_left(ed_high_product(three_halves, root) - ed_high_product(half, cube), 3);
  }
  root = ed_high_product(root, 1518500250);  // half of the root of 2
  if (right < 0) {
    root = (int32_t)((uint32_t)root << -right);
    right = 0;
  }
  return (ed_factor){root, up - right};
}

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  (void)scratch;
  const ed_l2_normalization *state = job->state;
  for (size_t row = begin; row < end; row++) {
    const uint8_t *from = (const uint8_t *)inputs[0] + row * state->row;
    uint8_t *to = (uint8_t *)outputs[0] + row * state->row;
    int32_t squares = 0;
    for (size_t i = 0; i < state->row; i++) {
      int32_t x = (state->is_unsigned ? from[i] : (int8_t)from[i]) - state->zero_point;
      squares += x * x;
    }
    ed_factor factor = ed_l2_factor(squares, state->is_unsigned);
    for (size_t i = 0; i < state->row; i++) to[i] = ed_l2_of(state, from[i], factor);
  }
}

ED_KERNEL(l2_normalization, scalar, ed_l2_normalization_prepare, run);
