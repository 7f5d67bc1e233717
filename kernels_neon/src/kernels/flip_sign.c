// SPDX-License-Identifier: Apache-2.0
#include "flip_sign.h"

#include "../tflite/options.h"
#include "expect.h"
#include "reject.h"

bool ed_flip_sign_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes) {
  if (op->builtin != kOpQuantize) return ed_reject(reason, reason_bytes, "expected QUANTIZE, got %d", op->builtin);
  if (!ed_expect_operands(op, 1, 1, reason, reason_bytes)) return false;
  const ed_tensor *from = &op->inputs[0], *to = &op->outputs[0];
  if (!ed_expect_same_shape(from, to, reason, reason_bytes)) return false;
  bool narrow = (from->type == kTfLiteUInt8 && to->type == kTfLiteInt8) ||
                (from->type == kTfLiteInt8 && to->type == kTfLiteUInt8);
  if (!narrow)
    return ed_reject(reason, reason_bytes, "expected uint8 and int8, got types %d and %d", from->type, to->type);
  int32_t shift = from->type == kTfLiteUInt8 ? -128 : 128;
  if (from->scale != to->scale || from->zero_point + shift != to->zero_point)
    return ed_reject(reason, reason_bytes, "expected one scale and zero points 128 apart, got %g, %d and %g, %d",
                     (double)from->scale, from->zero_point, (double)to->scale, to->zero_point);
  *job = (ed_job){.units = ed_count(to), .unit_bytes = 2};
  return true;
}

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  (void)job, (void)scratch;
  const uint8_t *from = inputs[0];
  uint8_t *to = outputs[0];
  for (size_t i = begin; i < end; i++) to[i] = from[i] ^ 0x80;
}

ED_KERNEL(flip_sign, scalar, ed_flip_sign_prepare, run);
