// SPDX-License-Identifier: Apache-2.0
#include "softmax.h"

#include <math.h>
#include <stdlib.h>

#include "../tflite/options.h"
#include "expect.h"
#include "reject.h"

enum {
  MOST = 1 << 15,  // elements of a row, so that the sum fits 31 bits
  LEAST = 127,     // an exponential that may give 1: 63.5 goes up to 64 and that, of 128, to 1, by the least of sums
};

bool ed_softmax_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes) {
  if (op->builtin != kOpSoftmax || !op->params)
    return ed_reject(reason, reason_bytes, "expected SOFTMAX, got operator %d", op->builtin);
  if (!ed_expect_operands(op, 1, 1, reason, reason_bytes)) return false;
  const ed_tensor *from = &op->inputs[0], *to = &op->outputs[0];
  const TfLiteSoftmaxParams *params = op->params;
  if (!ed_expect_bytes(from, reason, reason_bytes) || !ed_expect_bytes(to, reason, reason_bytes) ||
      !ed_expect_type(to, from->type, reason, reason_bytes) || !ed_expect_same_shape(from, to, reason, reason_bytes))
    return false;
  size_t row = from->rank ? (size_t)from->dims[from->rank - 1] : 0;
  if (!row || row >= MOST || from->rank > 4)
    return ed_reject(reason, reason_bytes, "expected rows of at most %d elements, in 4 dimensions", MOST - 1);
  if (to->scale != 1.0f / 256 || to->zero_point != ed_least(to->type))
    return ed_reject(reason, reason_bytes, "expected an output of 0 to 255/256");
  ed_softmax *state = malloc(sizeof *state);
  if (!state) return ed_reject(reason, reason_bytes, "out of memory");
  *state = (ed_softmax){.row = row, .zero_point = to->zero_point, .is_unsigned = to->type == kTfLiteUInt8};
  float scale = from->scale * params->beta;
  for (int32_t i = 0; i < 256; i++) {
    double rounded = (double)(expf(scale * (float)-i) * 65535) + 0.5;
    int32_t value = rounded < 65535 ? (int32_t)rounded : 65535;
    state->exponential[i] = (uint16_t)value;
    state->high[i] = (uint8_t)(value >> 8);
    state->low[i] = (uint8_t)value;
    if (value > 0) state->far = i + 1;
    if (value >= LEAST) state->near = i + 1;
  }
  *job = (ed_job){.state = state,
                  .units = ed_count(from) / row,
                  .unit_bytes = 2 * row,
                  .scratch_bytes = (row + 32) * sizeof(uint16_t)};
  return true;
}

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  (void)scratch;
  const ed_softmax *state = job->state;
  for (size_t row = begin; row < end; row++) {
    const uint8_t *from = (const uint8_t *)inputs[0] + row * state->row;
    uint8_t *to = (uint8_t *)outputs[0] + row * state->row;
    uint8_t greatest = from[0];
    for (size_t i = 1; i < state->row; i++) {
      bool is_greater = state->is_unsigned ? from[i] > greatest : (int8_t)from[i] > (int8_t)greatest;
      if (is_greater) greatest = from[i];
    }
    int32_t sum = 0;
    for (size_t i = 0; i < state->row; i++) sum += state->exponential[(uint8_t)(greatest - from[i])];
    ed_factor factor = ed_softmax_factor(sum);
    int32_t least = state->zero_point;
    for (size_t i = 0; i < state->row; i++) {
      int32_t scaled = ed_scaled(state->exponential[(uint8_t)(greatest - from[i])], factor);
      to[i] = (uint8_t)ed_clamp(scaled + least, least, least + 255);
    }
  }
}

ED_KERNEL(softmax, scalar, ed_softmax_prepare, run);
