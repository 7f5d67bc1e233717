// SPDX-License-Identifier: Apache-2.0
#include "expect.h"

#include <math.h>
#include <string.h>

#include "reject.h"

size_t ed_count(const ed_tensor *tensor) {
  size_t elements = 1;
  for (int i = 0; i < tensor->rank; i++) elements *= (size_t)tensor->dims[i];
  return elements;
}

size_t ed_element_bytes(TfLiteType type) {
  switch (type) {
    case kTfLiteInt8:
    case kTfLiteUInt8:
    case kTfLiteBool:
      return 1;
    case kTfLiteInt16:
    case kTfLiteFloat16:
      return 2;
    case kTfLiteInt32:
    case kTfLiteFloat32:
      return 4;
    case kTfLiteInt64:
    case kTfLiteFloat64:
      return 8;
    default:
      return 0;
  }
}

bool ed_expect_sound(const ed_tensor *tensor, size_t bytes, char *reason, size_t reason_bytes) {
  size_t element = ed_element_bytes(tensor->type), expected = element;
  for (int i = 0; i < tensor->rank; i++) {
    if (tensor->dims[i] < 0 || __builtin_mul_overflow(expected, (size_t)tensor->dims[i], &expected))
      return ed_reject(reason, reason_bytes, "its dimensions are none");
  }
  if (element && expected != bytes)
    return ed_reject(reason, reason_bytes, "it has %zu bytes, its dimensions say %zu", bytes, expected);
  bool is_byte = tensor->type == kTfLiteInt8 || tensor->type == kTfLiteUInt8;
  int32_t least = tensor->type == kTfLiteUInt8 ? 0 : -128;
  if (is_byte && (tensor->zero_point < least || tensor->zero_point > least + 255))
    return ed_reject(reason, reason_bytes, "its zero point %d is no value of its type", tensor->zero_point);
  if (!isfinite(tensor->scale) || tensor->scale < 0)
    return ed_reject(reason, reason_bytes, "its scale is %g", (double)tensor->scale);
  return true;
}

bool ed_expect_operands(const ed_op *op, int inputs, int outputs, char *reason, size_t reason_bytes) {
  if (op->inputs_count == inputs && op->outputs_count == outputs) return true;
  return ed_reject(reason, reason_bytes, "expected %d inputs and %d outputs, got %d and %d", inputs, outputs,
                   op->inputs_count, op->outputs_count);
}

bool ed_expect_bytes(const ed_tensor *tensor, char *reason, size_t reason_bytes) {
  if (tensor->type != kTfLiteInt8 && tensor->type != kTfLiteUInt8)
    return ed_reject(reason, reason_bytes, "expected int8 or uint8, got type %d", tensor->type);
  if (!(tensor->scale > 0)) return ed_reject(reason, reason_bytes, "expected one scale for each tensor");
  return true;
}

bool ed_expect_type(const ed_tensor *tensor, TfLiteType type, char *reason, size_t reason_bytes) {
  return tensor->type == type || ed_reject(reason, reason_bytes, "expected type %d, got %d", type, tensor->type);
}

bool ed_expect_same_shape(const ed_tensor *a, const ed_tensor *b, char *reason, size_t reason_bytes) {
  if (a->rank == b->rank && !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims)) return true;
  return ed_reject(reason, reason_bytes, "expected operands of one shape");
}
