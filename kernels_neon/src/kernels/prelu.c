// SPDX-License-Identifier: Apache-2.0
#include "prelu.h"

#include <stdlib.h>

#include "../tflite/options.h"
#include "expect.h"
#include "reject.h"

bool ed_prelu_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes) {
  if (op->builtin != kOpPrelu) return ed_reject(reason, reason_bytes, "expected PRELU, got operator %d", op->builtin);
  ed_prelu state = {0}, *kept;
  if (!ed_pairs_prepare(op, &state.pairs, reason, reason_bytes)) return false;
  const ed_tensor *from = &op->inputs[0], *slopes = &op->inputs[1], *to = &op->outputs[0];
  if (!ed_expect_bytes(to, reason, reason_bytes) || !ed_expect_type(to, from->type, reason, reason_bytes)) return false;
  state.positive = ed_factor_of((double)(from->scale / to->scale));
  state.negative = ed_factor_of((double)(from->scale * slopes->scale / to->scale));
  state.zero_points[0] = from->zero_point;
  state.zero_points[1] = slopes->zero_point;
  state.out_zero_point = to->zero_point;
  state.least = ed_least(to->type);
  if (!(kept = malloc(sizeof *kept))) return ed_reject(reason, reason_bytes, "out of memory");
  *kept = state;
  *job = (ed_job){.state = kept, .units = state.pairs.elements, .unit_bytes = 3};
  return true;
}

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  (void)scratch;
  const ed_prelu *state = job->state;
  const uint8_t *from = inputs[0], *slopes = inputs[1];
  uint8_t *to = outputs[0];
  for (size_t i = begin; i < end; i++) to[i] = ed_prelu_of(state, from[i], slopes[i % state->pairs.period]);
}

ED_KERNEL(prelu, scalar, ed_prelu_prepare, run);
