// SPDX-License-Identifier: Apache-2.0
#include "log_softmax.h"

#include <math.h>

#include "requantise.h"

static int32_t value_of(const ed_log_softmax *state, uint8_t byte) {
  return state->is_unsigned ? byte : (int8_t)byte;
}

// The logarithm of the sum of a row's exponentials.
static float logarithm_of(const ed_log_softmax *state, const uint8_t *from, int32_t greatest) {
  const float *exponential = state->exponential + 255 - greatest;
  float sum = 0;
  if (state->is_unsigned) {
#pragma GCC unroll 8
    for (size_t i = 0; i < state->row; i++) sum += exponential[from[i]];
  } else {
#pragma GCC unroll 8
    for (size_t i = 0; i < state->row; i++) sum += exponential[(int8_t)from[i]];
  }
  return logf(sum);
}

static float offset_of(const ed_log_softmax *state, int32_t greatest, float logarithm) {
  return fmaf(state->from_scale, (float)greatest, logarithm) * 16;
}

// Less the zero point: the nearest, halves to even.
static int32_t result_of(const ed_log_softmax *state, int32_t x, float offset) {
  return (int32_t)rintf(fmaf(state->scale, (float)x, -offset));
}

static void finish(const ed_log_softmax *state, const uint8_t *from, uint8_t *to, float offset) {
  const int32_t most = state->zero_point;
  for (size_t i = 0; i < state->row; i++)
    to[i] = (uint8_t)ed_clamp(most + result_of(state, value_of(state, from[i]), offset), most - 255, most);
}

// The first fraction that is not below.
static int first_from(const ed_log_softmax *state, float threshold) {
  int low = 0, high = state->fractions_count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (state->fractions[middle] < threshold)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// How the row ends, if that is sure for what has that distance from the truth, or ED_LOG_DONE.
static uint32_t end_of(const ed_log_softmax *state, float halves, float distance) {
  const float whole = floorf(halves), threshold = 1 - (halves - whole);
  const int first = first_from(state, threshold);
  if (!first || threshold - state->fractions[first - 1] <= distance || state->fractions[first] - threshold <= distance)
    return ED_LOG_DONE;
  return (uint32_t)whole | (uint32_t)(first - 1) << 8;
}

// The same by what the stock kernel makes of those values whose fractions are too near; ED_LOG_DONE if that is no end.
static uint32_t tried_end_of(const ed_log_softmax *state, float halves, int32_t greatest, float offset) {
  const float whole = floorf(halves), threshold = 1 - (halves - whole);
  if (!(threshold > state->exact) || !(1 - threshold > state->exact)) return ED_LOG_DONE;
  int i = first_from(state, threshold - state->exact), last = i - 1;
  bool is_more = false;
  for (; i < state->fractions_count && state->fractions[i] <= threshold + state->exact; i++) {
    const uint8_t below = state->below[i];
    const int32_t x = greatest - below, all = (int32_t)whole + 255 - state->parts[below / 64][0][below % 64];
    if (x < state->zero_point - 255) continue;
    const int32_t more = -result_of(state, x, offset) - all;
    if (more < is_more || more > 1) return ED_LOG_DONE;
    is_more = more;
    if (!more) last = i;
  }
  return (uint32_t)whole | (uint32_t)last << 8;
}

uint32_t ed_log_softmax_settle(const ed_log_softmax *state, const uint8_t *from, uint8_t *to, uint8_t greatest,
                               float halves) {
  uint32_t end = state->row <= ED_LOG_MOST ? end_of(state, halves, state->near) : ED_LOG_DONE;
  if (end != ED_LOG_DONE) return end;
  const int32_t value = state->is_unsigned ? greatest : greatest - 128;
  const float logarithm = logarithm_of(state, from, value), exact = fmaf(logarithm, 16, 0.5f);
  end = end_of(state, exact, state->exact);
  if (end != ED_LOG_DONE) return end;
  const float offset = offset_of(state, value, logarithm);
  end = tried_end_of(state, exact, value, offset);
  if (end == ED_LOG_DONE) finish(state, from, to, offset);
  return end;
}

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  (void)scratch;
  const ed_log_softmax *state = job->state;
  for (size_t row = begin; row < end; row++) {
    const uint8_t *from = (const uint8_t *)inputs[0] + row * state->row;
    int32_t greatest = value_of(state, from[0]);
    for (size_t i = 1; i < state->row; i++) {
      int32_t x = value_of(state, from[i]);
      if (x > greatest) greatest = x;
    }
    const float offset = offset_of(state, greatest, logarithm_of(state, from, greatest));
    finish(state, from, (uint8_t *)outputs[0] + row * state->row, offset);
  }
}

ED_KERNEL(log_softmax, scalar, ed_log_softmax_prepare, run);
