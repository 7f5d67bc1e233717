// SPDX-License-Identifier: Apache-2.0
#include "squared_difference.h"

#include <stdlib.h>

#include "../tflite/options.h"
#include "expect.h"
#include "reject.h"

bool ed_squared_difference_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes) {
  if (op->builtin != kOpSquaredDifference)
    return ed_reject(reason, reason_bytes, "expected SQUARED_DIFFERENCE, got operator %d", op->builtin);
  ed_squared_difference state = {0}, *kept;
  if (!ed_pairs_prepare(op, &state.pairs, reason, reason_bytes)) return false;
  const ed_tensor *a = &op->inputs[0], *b = &op->inputs[1], *to = &op->outputs[0];
  if (!ed_expect_bytes(to, reason, reason_bytes) || !ed_expect_type(a, kTfLiteInt8, reason, reason_bytes) ||
      !ed_expect_type(to, kTfLiteInt8, reason, reason_bytes))
    return false;
  double unit = 2 * (double)(a->scale > b->scale ? a->scale : b->scale);
  state.factors[0] = ed_factor_of((double)a->scale / unit);
  state.factors[1] = ed_factor_of((double)b->scale / unit);
  double square = unit * unit / ((1 << 14) * (double)to->scale);
  if (!(square < 1)) return ed_reject(reason, reason_bytes, "expected an output coarser than a square, 14 bits up");
  state.square = ed_factor_of(square);
  state.zero_points[0] = a->zero_point;
  state.zero_points[1] = b->zero_point;
  state.out_zero_point = to->zero_point;
  if (!(kept = malloc(sizeof *kept))) return ed_reject(reason, reason_bytes, "out of memory");
  *kept = state;
  *job = (ed_job){.state = kept, .units = state.pairs.elements, .unit_bytes = 3};
  return true;
}

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  (void)scratch;
  const ed_squared_difference *state = job->state;
  const uint8_t *a = inputs[0], *b = inputs[1];
  uint8_t *to = outputs[0];
  for (size_t i = begin; i < end; i++) to[i] = ed_squared_difference_of(state, a[i], b[i % state->pairs.period]);
}

ED_KERNEL(squared_difference, scalar, ed_squared_difference_prepare, run);
