// SPDX-License-Identifier: Apache-2.0
// Kernels for tests of the delegate only, linked into a library of their own: plain loops over float32 that give what
// the stock runtime gives, bit for bit.
#include <stdlib.h>
#include <string.h>

#include "../../src/kernels/kernel.h"
#include "../../src/kernels/reject.h"

enum { ADD = 0, MUL = 18, RELU = 19, RELU6 = 21, RESHAPE = 22, SUB = 41, MAXIMUM = 55 };
enum { MINIMUM = 57, NEG = 59, ABS = 101 };

static size_t elements(const ed_tensor *tensor) {
  size_t count = 1;
  for (int i = 0; i < tensor->rank; i++) count *= (size_t)tensor->dims[i];
  return count;
}

static bool is_float(const ed_tensor *tensor, char *reason, size_t reason_bytes) {
  return tensor->type == kTfLiteFloat32 || ed_reject(reason, reason_bytes, "expected float32, got %d", tensor->type);
}

static ed_job job_for(const ed_op *op) {
  int *code = malloc(2 * sizeof *code);
  code[0] = op->builtin;
  // `activation` is the first option of ADD, SUB and MUL.
  code[1] = op->builtin == ADD || op->builtin == SUB || op->builtin == MUL ? *(const int *)op->params : 0;
  // Far more bytes than there are, so that small ops are split, too.
  return (ed_job){.state = code, .units = elements(&op->outputs[0]), .unit_bytes = 65536, .scratch_bytes = 100};
}

static bool prepare_unary(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes) {
  if (!is_float(&op->inputs[0], reason, reason_bytes)) return false;
  *job = job_for(op);
  return true;
}

static void run_unary(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                      void *scratch) {
  const float *from = inputs[0];
  float *to = outputs[0], *between = scratch;  // 25 numbers fit
  int code = *(const int *)job->state;
  for (size_t i = begin; i < end; i++) {
    float *x = &between[i % 25];
    *x = from[i];
    if (code == ABS)
      *x = __builtin_fabsf(*x);
    else if (code == NEG)
      *x = -*x;
    else
      *x = *x < 0 ? 0 : code == RELU6 && *x > 6 ? 6 : *x;
    to[i] = *x;
  }
}

static bool prepare_binary(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes) {
  if (!is_float(&op->inputs[0], reason, reason_bytes)) return false;
  for (int i = 0; i < 2; i++)
    if (elements(&op->inputs[i]) != elements(&op->outputs[0]))
      return ed_reject(reason, reason_bytes, "expected operands of one shape");
  *job = job_for(op);
  return true;
}

static void run_binary(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                       void *scratch) {
  (void)scratch;
  const float *a = inputs[0], *b = inputs[1];
  const int *code = job->state;
  float *to = outputs[0];
  for (size_t i = begin; i < end; i++) {
    float x = code[0] == ADD       ? a[i] + b[i]
              : code[0] == SUB     ? a[i] - b[i]
              : code[0] == MUL     ? a[i] * b[i]
              : code[0] == MAXIMUM ? (a[i] > b[i] ? a[i] : b[i])
                                   : (a[i] < b[i] ? a[i] : b[i]);
    if (code[1] == 1 || code[1] == 3) x = x < 0 ? 0 : x;
    if (code[1] == 3) x = x > 6 ? 6 : x;
    to[i] = x;
  }
}

static bool prepare_reshape(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes) {
  if (!is_float(&op->inputs[0], reason, reason_bytes)) return false;
  *job = (ed_job){.units = elements(&op->outputs[0]), .unit_bytes = 8};
  return true;
}

static void run_reshape(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                        void *scratch) {
  (void)job, (void)scratch;
  memcpy((float *)outputs[0] + begin, (const float *)inputs[0] + begin, (end - begin) * sizeof(float));
}

static bool prepare_never(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes) {
  (void)job;
  return ed_reject(reason, reason_bytes, "it takes no op %d", op->builtin);
}

ED_KERNEL(test_unary, scalar, prepare_unary, run_unary);
ED_KERNEL(test_binary, scalar, prepare_binary, run_binary);
ED_KERNEL(test_reshape, scalar, prepare_reshape, run_reshape);
ED_KERNEL(test_never, scalar, prepare_never, run_reshape);
