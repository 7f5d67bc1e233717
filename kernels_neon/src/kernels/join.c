// SPDX-License-Identifier: Apache-2.0
#include "join.h"

#include <stdlib.h>

#include "../moves/moves.h"
#include "../tflite/options.h"
#include "expect.h"
#include "reject.h"

// Adds input i as a slice of the output that starts at `start` along `axis`; gives its size there, or -1.
static int32_t add(ed_moves *moves, const ed_op *op, int i, int axis, bool is_packed, int64_t start) {
  const ed_tensor *from = &op->inputs[i], *to = &op->outputs[0];
  ptrdiff_t steps[ED_MAX_RANK], to_steps[ED_MAX_RANK];
  ed_dense_steps(from, steps);
  ed_dense_steps(to, to_steps);
  ed_box box = {
      .input = i, .rank = from->rank, .run = ed_element_bytes(from->type), .to_start = to_steps[axis] * start};
  if (to->rank != from->rank + is_packed) return -1;
  for (int k = 0; k < from->rank; k++) {
    int there = k + (is_packed && k >= axis);
    if (from->dims[k] != to->dims[there] && (is_packed || k != axis)) return -1;
    box.dims[k] = from->dims[k];
    box.from[k] = steps[k];
    box.to[k] = to_steps[there];
  }
  ed_moves_add(moves, &box);
  return is_packed ? 1 : from->dims[axis];
}

bool ed_join_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes) {
  bool is_packed = op->builtin == kOpPack;
  if ((op->builtin != kOpConcatenation && !is_packed) || !op->params)
    return ed_reject(reason, reason_bytes, "expected CONCATENATION or PACK, got operator %d", op->builtin);
  if (op->inputs_count < 1 || !ed_expect_operands(op, op->inputs_count, 1, reason, reason_bytes))
    return ed_reject(reason, reason_bytes, "expected inputs and one output");
  const ed_tensor *to = &op->outputs[0];
  const TfLiteConcatenationParams *joined = op->params;
  const TfLitePackParams *packed = op->params;
  int axis = is_packed ? packed->axis : joined->axis;
  if (axis < 0) axis += to->rank;
  if (axis < 0 || axis >= to->rank || (!is_packed && joined->activation != kTfLiteActNone))
    return ed_reject(reason, reason_bytes, "expected an axis of the output and no activation");
  for (int i = 0; i < op->inputs_count; i++) {
    if (!ed_expect_alike(&op->inputs[i], to, reason, reason_bytes)) return false;
  }
  ed_moves *moves = ed_moves_new(op->inputs_count);
  if (!moves) return ed_reject(reason, reason_bytes, "out of memory");
  int64_t filled = 0;  // one tensor may be named often: more than 32 bits
  for (int i = 0; i < op->inputs_count; i++) {
    int32_t size = add(moves, op, i, axis, is_packed, filled);
    if (size < 0) {
      free(moves);
      return ed_reject(reason, reason_bytes, "expected shapes that differ along the axis only");
    }
    filled += size;
  }
  if (filled != to->dims[axis]) {
    free(moves);
    return ed_reject(reason, reason_bytes, "expected inputs that fill the output");
  }
  *job = ed_moves_job(moves);
  return true;
}

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  (void)scratch;
  ed_moves_run(job->state, inputs, outputs, begin, end, ed_copy_runs_scalar);
}

ED_KERNEL(join, scalar, ed_join_prepare, run);
