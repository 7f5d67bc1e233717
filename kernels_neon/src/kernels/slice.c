// SPDX-License-Identifier: Apache-2.0
#include "slice.h"

#include "../moves/moves.h"
#include "../tflite/options.h"
#include "expect.h"
#include "reject.h"

enum { MAX_AXES = 5 };  // as many as the built-in kernel has

static int64_t clamped(int64_t value, int64_t low, int64_t high) {
  return value < low ? low : value > high ? high : value;
}

// Where the range of one axis starts, and how many elements it has.
static int64_t range(int64_t size, int64_t begin, int64_t end, int64_t stride, bool from_end, bool to_end,
                     bool is_shrunk, int64_t *start) {
  int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? size : size - 1;
  if (from_end) begin = stride > 0 ? low : high;
  if (begin < 0 && !from_end) begin += size;
  *start = clamped(begin, low, high);
  if (is_shrunk) return 1;
  if (to_end)
    end = stride > 0 ? high : low;
  else if (end < 0)
    end += size;
  int64_t stop = clamped(end, low, high), span = stride > 0 ? stop - *start : *start - stop;
  int64_t step = stride > 0 ? stride : -stride;
  return span > 0 ? (span + step - 1) / step : 0;
}

bool ed_slice_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes) {
  if (op->builtin != kOpStridedSlice)
    return ed_reject(reason, reason_bytes, "expected STRIDED_SLICE, got operator %d", op->builtin);
  if (!ed_expect_operands(op, 4, 1, reason, reason_bytes)) return false;
  const TfLiteStridedSliceParams *params = op->params;
  const ed_tensor *from = &op->inputs[0], *to = &op->outputs[0];
  int rank = from->rank;
  if (!params || params->ellipsis_mask || params->new_axis_mask || params->offset)
    return ed_reject(reason, reason_bytes, "expected no ellipsis, no new axis and no offset");
  if (rank < 1 || rank > MAX_AXES)
    return ed_reject(reason, reason_bytes, "expected 1 to %d dimensions, got %d", MAX_AXES, rank);
  int64_t ranges[3][MAX_AXES];  // begin, end, stride
  for (int i = 0; i < 3; i++) {
    if (!ed_expect_integers(&op->inputs[1 + i], rank, ranges[i], reason, reason_bytes)) return false;
  }
  if (!ed_expect_alike(from, to, reason, reason_bytes)) return false;
  size_t element = ed_element_bytes(from->type);
  ed_box box = {.rank = rank, .run = element};
  ptrdiff_t steps[ED_MAX_RANK], to_steps[ED_MAX_RANK];
  ed_dense_steps(from, steps);
  ed_dense_steps(to, to_steps);
  int out = 0;
  for (int i = 0; i < rank; i++) {
    int64_t stride = ranges[2][i], start;
    bool is_shrunk = params->shrink_axis_mask >> i & 1;
    if (!stride || stride != (int32_t)stride || (is_shrunk && stride < 0))
      return ed_reject(reason, reason_bytes, "expected strides other than 0, and above 0 where an axis goes");
    int64_t count = range(from->dims[i], ranges[0][i], ranges[1][i], stride, params->begin_mask >> i & 1,
                          params->end_mask >> i & 1, is_shrunk, &start);
    bool is_inside = start >= 0 && start < from->dims[i];
    if (!is_inside || (!is_shrunk && (out >= to->rank || to->dims[out] != count)))
      return ed_reject(reason, reason_bytes, "expected an output of the ranges' sizes");
    box.dims[i] = (int32_t)count;
    box.from[i] = steps[i] * (ptrdiff_t)stride;
    box.to[i] = is_shrunk ? 0 : to_steps[out++];
    box.from_start += steps[i] * (ptrdiff_t)start;
  }
  if (out != to->rank) return ed_reject(reason, reason_bytes, "expected an output of the ranges' sizes");
  ed_moves *moves = ed_moves_new(1);
  if (!moves) return ed_reject(reason, reason_bytes, "out of memory");
  ed_moves_add(moves, &box);
  *job = ed_moves_job(moves);
  return true;
}

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  (void)scratch;
  ed_moves_run(job->state, inputs, outputs, begin, end, ed_copy_runs_scalar);
}

ED_KERNEL(slice, scalar, ed_slice_prepare, run);
