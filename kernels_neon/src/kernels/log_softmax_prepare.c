// SPDX-License-Identifier: Apache-2.0
#include "log_softmax.h"

#include <math.h>
#include <stdlib.h>

#include "../tflite/options.h"
#include "expect.h"
#include "reject.h"
#include "requantise.h"

enum { MOST = 1 << 20 };  // elements of a row, so that 16 times the logarithm stays below 255

// Of an input, so that results fit 32 bits before they are clamped.
static const float kScaleLimit = 65536;

typedef struct {
  float fraction;
  int below;
} part;

static int compare(const void *a, const void *b) {
  const part *first = a, *second = b;
  if (first->fraction != second->fraction) return first->fraction < second->fraction ? -1 : 1;
  return first->below - second->below;
}

static void sort_fractions(ed_log_softmax *state) {
  part parts[256];
  int count = 0;
  for (int i = 0; i < 256; i++) {
    double value = (double)state->scale * i, whole = floor(value);
    if (whole >= 255) break;
    state->parts[i / 64][0][i % 64] = (uint8_t)(255 - (int)whole);
    state->quarters = i / 64 + 1;
    parts[count++] = (part){(float)(value - whole), i};
  }
  qsort(parts, (size_t)count, sizeof *parts, compare);
  for (int i = 0; i < count; i++) {
    state->fractions[i] = parts[i].fraction;
    state->below[i] = (uint8_t)parts[i].below;
    state->parts[parts[i].below / 64][1][parts[i].below % 64] = (uint8_t)i;
  }
  state->fractions[count] = 1;
  state->fractions_count = count;
}

// What rounding may come to, by its bounds, in units of 2^-24. The stock kernel rounds the offset and the result, we
// the threshold. An added exponential is rounded by half a unit of the sum, one of 24 bits by half a unit of 1; then
// there are three bytes put together, and two logarithms.
static void bound_errors(ed_log_softmax *state) {
  const double logarithm = log((double)state->row), unit = ldexp(1, -24);
  const double exact = 256 * (double)state->scale + 32 * logarithm + 270;
  state->exact = (float)(exact * unit);
  state->near = (float)((exact + 24.1 * (double)state->row + 64 * logarithm + 128) * unit);
}

static void fill_buckets(ed_log_softmax *state) {
  int next = 0;
  for (int i = 0; i <= ED_LOG_BUCKETS; i++) {
    const float step = 1 / (float)ED_LOG_BUCKETS, low = (float)i * step - state->near,
                high = (float)(i + 1) * step + state->near;
    while (next < state->fractions_count && state->fractions[next] < low) next++;
    state->buckets[i] = (uint16_t)(state->fractions[next] <= high ? ED_LOG_UNKNOWN : next - 1);
  }
}

static void fill_tables(ed_log_softmax *state) {
  sort_fractions(state);
  for (int i = 0; i < 256; i++) {
    float exponential = expf(state->from_scale * (float)-i);
    int32_t fixed = (int32_t)((double)exponential * 0xffffff + 0.5);
    state->exponential[255 - i] = exponential;
    for (int k = 0; k < 3; k++) state->fixed[i / 64][k][i % 64] = (uint8_t)(fixed >> 8 * k);
    if (fixed && state->quarters <= i / 64) state->quarters = i / 64 + 1;
    if (fixed >> 16) state->high_quarters = i / 64 + 1;
  }
  bound_errors(state);
  fill_buckets(state);
}

bool ed_log_softmax_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes) {
  if (op->builtin != kOpLogSoftmax)
    return ed_reject(reason, reason_bytes, "expected LOG_SOFTMAX, got operator %d", op->builtin);
  if (!ed_expect_operands(op, 1, 1, reason, reason_bytes)) return false;
  const ed_tensor *from = &op->inputs[0], *to = &op->outputs[0];
  if (!ed_expect_bytes(from, reason, reason_bytes) || !ed_expect_bytes(to, reason, reason_bytes) ||
      !ed_expect_type(to, from->type, reason, reason_bytes) || !ed_expect_same_shape(from, to, reason, reason_bytes))
    return false;
  size_t row = from->rank ? (size_t)from->dims[from->rank - 1] : 0;
  if (row < 2 || row > MOST || from->rank > 4)
    return ed_reject(reason, reason_bytes, "expected rows of 2 to %d elements, in 4 dimensions", MOST);
  if (from->scale >= kScaleLimit)
    return ed_reject(reason, reason_bytes, "expected an input of a scale below %g", (double)kScaleLimit);
  if (to->scale != 1.0f / 16 || to->zero_point != ed_least(to->type) + 255)
    return ed_reject(reason, reason_bytes, "expected an output of -255/16 to 0");
  ed_log_softmax *state = malloc(sizeof *state);
  if (!state) return ed_reject(reason, reason_bytes, "out of memory");
  *state = (ed_log_softmax){.row = row,
                            .zero_point = to->zero_point,
                            .is_unsigned = to->type == kTfLiteUInt8,
                            .from_scale = from->scale,
                            .scale = from->scale * 16};
  fill_tables(state);
  *job = (ed_job){.state = state, .units = ed_count(from) / row, .unit_bytes = 2 * row};
  return true;
}
