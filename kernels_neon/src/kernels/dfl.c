// SPDX-License-Identifier: Apache-2.0
#include "dfl.h"

#include <math.h>
#include <stdlib.h>

#include "../tflite/options.h"
#include "expect.h"
#include "reject.h"

enum { VECTOR = 16 };

static size_t whole(size_t bytes, size_t of) {
  return (bytes + of - 1) / of * of;
}

static bool expect_filter(const ed_op *op, size_t row, char *reason, size_t reason_bytes) {
  const ed_tensor *filter = &op->inputs[1], *bias = &op->inputs[2];
  const TfLiteConvParams *params = op->params;
  if (filter->type != kTfLiteInt8 || !filter->data || !ed_expect_bytes(filter, reason, reason_bytes) ||
      filter->zero_point)
    return ed_reject(reason, reason_bytes, "expected a constant int8 filter with zero point 0");
  if (filter->rank != 4 || filter->dims[0] != 1 || filter->dims[1] != 1 || filter->dims[2] != 1 ||
      (size_t)filter->dims[3] != row)
    return ed_reject(reason, reason_bytes, "expected a 1x1 filter over whole rows, with one result");
  if (bias->type != kTfLiteInt32 || !bias->data || ed_count(bias) != 1)
    return ed_reject(reason, reason_bytes, "expected one constant int32 as bias");
  if (params->stride_width != 1 || params->stride_height != 1 || params->activation != kTfLiteActNone)
    return ed_reject(reason, reason_bytes, "expected strides of 1 and no activation");
  return true;
}

// What the other op of the pattern does, judged by its own kernel.
static bool prepare_softmax(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes) {
  const ed_op softmax = {.builtin = op->host->builtin,
                         .params = op->host->params,
                         .version = 1,
                         .inputs_count = 1,
                         .outputs_count = 1,
                         .inputs = op->inputs,
                         .outputs = op->host->result};
  return ed_softmax_prepare(&softmax, job, reason, reason_bytes);
}

static bool expect_pattern(const ed_op *op, char *reason, size_t reason_bytes) {
  if (op->builtin != kOpConv2d || !op->params || !op->host)
    return ed_reject(reason, reason_bytes, "expected CONV_2D of what a SOFTMAX makes, got operator %d", op->builtin);
  if (!ed_expect_operands(op, 3, 1, reason, reason_bytes)) return false;
  const ed_tensor *bins = op->host->result, *to = &op->outputs[0];
  if (!ed_expect_type(bins, kTfLiteInt8, reason, reason_bytes) ||
      !ed_expect_type(to, kTfLiteInt8, reason, reason_bytes) || !ed_expect_bytes(to, reason, reason_bytes))
    return false;
  bool is_alike = bins->rank == 4 && to->rank == 4 && to->dims[3] == 1;
  for (int i = 0; is_alike && i < 3; i++) is_alike = bins->dims[i] == to->dims[i];
  return is_alike || ed_reject(reason, reason_bytes, "expected one result for each row of an image");
}

bool ed_dfl_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes) {
  ed_job inner = {0};
  if (!expect_pattern(op, reason, reason_bytes) || !prepare_softmax(op, &inner, reason, reason_bytes)) return false;
  const ed_softmax *softmax = inner.state;
  const size_t row = softmax->row, padded = whole(row, VECTOR);
  ed_dfl *state = NULL;
  // XNNPACK's order of operations, and what it takes.
  const float scale = op->host->result->scale * op->inputs[1].scale / op->outputs[0].scale;
  if (!expect_filter(op, row, reason, reason_bytes)) goto done;
  if (!isnormal(op->inputs[1].scale) || !isnormal(op->outputs[0].scale) || !(scale < 256)) {
    ed_reject(reason, reason_bytes, "expected scales that XNNPACK takes");
    goto done;
  }
  if (!(state = calloc(1, sizeof *state + padded))) {
    ed_reject(reason, reason_bytes, "out of memory");
    goto done;
  }
  state->softmax = *softmax;
  state->row = row;
  state->scratch_bytes = whole(inner.scratch_bytes, 64);
  state->scale = scale;
  state->zero_point = op->outputs[0].zero_point;
  memcpy(state->weights, op->inputs[1].data, row);
  memcpy(&state->bias, op->inputs[2].data, sizeof state->bias);
  for (size_t i = 0; i < row; i++) state->bias = ed_sum(state->bias, -op->host->result->zero_point * state->weights[i]);
  *job = (ed_job){.state = state,
                  .units = inner.units,
                  .unit_bytes = row + 1,
                  .scratch_bytes = state->scratch_bytes + ED_DFL_ROWS * row + VECTOR};
done:
  free(inner.state);
  return state;
}

void ed_dfl_run(const ed_job *job, const ed_kernel *softmax, ed_dfl_means means, const int8_t *from, int8_t *to,
                size_t begin, size_t end, void *scratch) {
  ed_dfl *state = job->state;
  const ed_job inner = {.state = &state->softmax};
  int8_t *bins = (int8_t *)scratch + state->scratch_bytes;
  for (size_t at = begin; at < end; at += ED_DFL_ROWS) {
    const size_t rows = end - at < ED_DFL_ROWS ? end - at : ED_DFL_ROWS;
    const void *inputs[] = {from + at * state->row};
    void *outputs[] = {bins};
    softmax->run(&inner, inputs, outputs, 0, rows, scratch);
    means(state, bins, to + at, rows);
  }
}

static void means(const ed_dfl *state, const int8_t *bins, int8_t *to, size_t rows) {
  const float low = (float)(-128 - state->zero_point), high = (float)(127 - state->zero_point);
  for (size_t i = 0; i < rows; i++, bins += state->row) {
    int32_t sum = state->bias;
    for (size_t k = 0; k < state->row; k++) sum = ed_sum(sum, bins[k] * state->weights[k]);
    float scaled = (float)sum * state->scale;
    scaled = scaled < low ? low : scaled > high ? high : scaled;
    to[i] = (int8_t)((int32_t)rintf(scaled) + state->zero_point);
  }
}

extern const ed_kernel ed_softmax_scalar;

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  ed_dfl_run(job, &ed_softmax_scalar, means, inputs[0], outputs[0], begin, end, scratch);
}

ED_KERNEL_WITH(kOpSoftmax, dfl, scalar, ed_dfl_prepare, run);
