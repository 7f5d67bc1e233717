// SPDX-License-Identifier: Apache-2.0
#include "part.h"

#include <stdlib.h>

#include "../moves/moves.h"
#include "../tflite/options.h"
#include "expect.h"
#include "reject.h"

// Adds output i, a slice of the input that starts at `start` along `axis`; gives its size there, or -1.
static int32_t add(ed_moves *moves, const ed_op *op, int data, int i, int axis, int64_t start) {
  bool is_unpacked = op->builtin == kOpUnpack;
  const ed_tensor *from = &op->inputs[data], *to = &op->outputs[i];
  ptrdiff_t steps[ED_MAX_RANK], to_steps[ED_MAX_RANK];
  ed_dense_steps(from, steps);
  ed_dense_steps(to, to_steps);
  ed_box box = {.input = data, .output = i, .rank = to->rank, .run = ed_element_bytes(from->type)};
  box.from_start = steps[axis] * start;
  if (from->rank != to->rank + is_unpacked) return -1;
  for (int k = 0; k < to->rank; k++) {
    int there = k + (is_unpacked && k >= axis);
    if (to->dims[k] != from->dims[there] && (is_unpacked || k != axis)) return -1;
    box.dims[k] = to->dims[k];
    box.from[k] = steps[there];
    box.to[k] = to_steps[k];
  }
  ed_moves_add(moves, &box);
  return is_unpacked ? 1 : to->dims[axis];
}

// The data's position and the axis, as written.
static bool operands(const ed_op *op, int *data, int64_t *axis, char *reason, size_t reason_bytes) {
  const TfLiteUnpackParams *unpacked = op->params;
  int inputs = op->builtin == kOpSplit ? 2 : op->builtin == kOpSplitV ? 3 : 1;
  if (op->outputs_count < 1) return ed_reject(reason, reason_bytes, "expected outputs");
  if (!ed_expect_operands(op, inputs, op->outputs_count, reason, reason_bytes)) return false;
  *data = op->builtin == kOpSplit;
  if (op->builtin == kOpUnpack) {
    *axis = unpacked ? unpacked->axis : 0;
    return unpacked || ed_reject(reason, reason_bytes, "expected options");
  }
  return ed_expect_integers(&op->inputs[op->builtin == kOpSplit ? 0 : 2], 1, axis, reason, reason_bytes);
}

bool ed_part_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes) {
  if (op->builtin != kOpSplit && op->builtin != kOpSplitV && op->builtin != kOpUnpack)
    return ed_reject(reason, reason_bytes, "expected SPLIT, SPLIT_V or UNPACK, got operator %d", op->builtin);
  int data = 0;
  int64_t axis;
  if (!operands(op, &data, &axis, reason, reason_bytes)) return false;
  const ed_tensor *from = &op->inputs[data];
  if (axis < 0) axis += from->rank;
  if (axis < 0 || axis >= from->rank) return ed_reject(reason, reason_bytes, "expected an axis of the input");
  for (int i = 0; i < op->outputs_count; i++) {
    if (!ed_expect_alike(from, &op->outputs[i], reason, reason_bytes)) return false;
  }
  ed_moves *moves = ed_moves_new(op->outputs_count);
  if (!moves) return ed_reject(reason, reason_bytes, "out of memory");
  int64_t taken = 0;  // one tensor may be named often: more than 32 bits
  for (int i = 0; i < op->outputs_count; i++) {
    int32_t size = add(moves, op, data, i, (int)axis, taken);
    if (size < 0) {
      free(moves);
      return ed_reject(reason, reason_bytes, "expected shapes that differ along the axis only");
    }
    taken += size;
  }
  if (taken != from->dims[axis]) {
    free(moves);
    return ed_reject(reason, reason_bytes, "expected outputs that make up the input");
  }
  *job = ed_moves_job(moves);
  return true;
}

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  (void)scratch;
  ed_moves_run(job->state, inputs, outputs, begin, end, ed_copy_runs_scalar);
}

ED_KERNEL(part, scalar, ed_part_prepare, run);
