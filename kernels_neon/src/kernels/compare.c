// SPDX-License-Identifier: Apache-2.0
#include "compare.h"

#include <stdlib.h>

#include "../tflite/options.h"
#include "expect.h"
#include "reject.h"

static bool is_comparison(int32_t builtin) {
  return builtin == kOpLess || builtin == kOpLessEqual || builtin == kOpGreater || builtin == kOpGreaterEqual ||
         builtin == kOpEqual || builtin == kOpNotEqual;
}

bool ed_compare_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes) {
  if (!is_comparison(op->builtin))
    return ed_reject(reason, reason_bytes, "expected a comparison, got operator %d", op->builtin);
  ed_compare state = {.builtin = op->builtin}, *kept;
  if (!ed_pairs_prepare(op, &state.pairs, reason, reason_bytes)) return false;
  if (!ed_expect_type(&op->outputs[0], kTfLiteBool, reason, reason_bytes)) return false;
  for (int i = 0; i < 2; i++) {
    if (!(op->inputs[i].scale < 1)) return ed_reject(reason, reason_bytes, "expected scales below 1");
    state.factors[i] = ed_factor_of((double)op->inputs[i].scale);
    state.zero_points[i] = op->inputs[i].zero_point;
  }
  if (!(kept = malloc(sizeof *kept))) return ed_reject(reason, reason_bytes, "out of memory");
  *kept = state;
  *job = (ed_job){.state = kept, .units = state.pairs.elements, .unit_bytes = 3};
  return true;
}

static int32_t scaled(const ed_compare *state, int i, uint8_t value) {
  int32_t x = state->pairs.is_unsigned ? value : (int8_t)value;
  return ed_scaled((x - state->zero_points[i]) * 256, state->factors[i]);
}

uint8_t ed_compare_of(const ed_compare *state, uint8_t a, uint8_t b) {
  int32_t x = scaled(state, 0, a), y = scaled(state, 1, b);
  switch (state->builtin) {
    case kOpLess:
      return x < y;
    case kOpLessEqual:
      return x <= y;
    case kOpGreater:
      return x > y;
    case kOpGreaterEqual:
      return x >= y;
    case kOpEqual:
      return x == y;
    default:
      return x != y;
  }
}

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  (void)scratch;
  const ed_compare *state = job->state;
  const uint8_t *a = inputs[0], *b = inputs[1];
  uint8_t *to = outputs[0];
  for (size_t i = begin; i < end; i++) to[i] = ed_compare_of(state, a[i], b[i % state->pairs.period]);
}

ED_KERNEL(compare, scalar, ed_compare_prepare, run);
