// SPDX-License-Identifier: Apache-2.0
#include "pool.h"

#include <math.h>

#include "../tflite/options.h"
#include "expect.h"
#include "reject.h"
#include "requantise.h"

enum { MOST = 2048 };  // of a window's side: the sum of its values fits 31 bits, 2048 * 2048 * 255 < 2^31

// A value in the units of a tensor; beyond what its type can hold it does not matter how far.
static int32_t quantised(const ed_tensor *tensor, float value) {
  return tensor->zero_point + (int32_t)fminf(fmaxf(roundf(value / tensor->scale), -512), 512);
}

static void bounds(const ed_tensor *to, TfLiteFusedActivation activation, ed_pool *pool) {
  int32_t low = ed_least(to->type), high = low + 255;
  float least = activation == kTfLiteActReluN1To1 ? -1 : 0, most = activation == kTfLiteActReluN1To1 ? 1 : 6;
  if (activation != kTfLiteActNone && quantised(to, least) > low) low = quantised(to, least);
  bool has_top = activation == kTfLiteActReluN1To1 || activation == kTfLiteActRelu6;
  if (has_top && quantised(to, most) < high) high = quantised(to, most);
  pool->low = low;
  pool->high = high;
}

// Padding before the image, as the runtime centres windows; false if the sizes are not those of the windows.
static bool window(ed_pool *pool, int axis, int32_t size, int32_t out, TfLitePadding padding) {
  int32_t filter = pool->filter[axis], stride = pool->stride[axis];
  if (filter < 1 || stride < 1 || filter > MOST || stride > MOST || size > INT32_MAX - 2 * MOST) return false;
  bool is_same = padding == kTfLitePaddingSame;
  int64_t expected = is_same ? ((int64_t)size + stride - 1) / stride : ((int64_t)size - filter + stride) / stride;
  int64_t total = ((int64_t)out - 1) * stride + filter - size;
  pool->before[axis] = is_same && total > 0 ? (int32_t)total / 2 : 0;
  return expected == out;
}

bool ed_pool_prepare(const ed_op *op, int32_t builtin, ed_pool *pool, size_t *rows, char *reason, size_t reason_bytes) {
  if (op->builtin != builtin || !op->params)
    return ed_reject(reason, reason_bytes, "expected operator %d, got %d", builtin, op->builtin);
  if (!ed_expect_operands(op, 1, 1, reason, reason_bytes)) return false;
  const ed_tensor *from = &op->inputs[0], *to = &op->outputs[0];
  if (!ed_expect_bytes(from, reason, reason_bytes) || !ed_expect_bytes(to, reason, reason_bytes) ||
      !ed_expect_type(to, from->type, reason, reason_bytes))
    return false;
  if (from->scale != to->scale || from->zero_point != to->zero_point)
    return ed_reject(reason, reason_bytes, "expected one scale and zero point before and after");
  const TfLitePoolParams *params = op->params;
  TfLiteFusedActivation activation = params->activation;
  if (activation > kTfLiteActRelu6 || (params->padding != kTfLitePaddingSame && params->padding != kTfLitePaddingValid))
    return ed_reject(reason, reason_bytes, "expected SAME or VALID, and an activation of the RELU family");
  *pool = (ed_pool){.filter = {params->filter_height, params->filter_width},
                    .stride = {params->stride_height, params->stride_width},
                    .is_unsigned = from->type == kTfLiteUInt8};
  bool fits = from->rank == 4 && to->rank == 4 && from->dims[0] == to->dims[0] && from->dims[3] == to->dims[3] &&
              window(pool, 0, from->dims[1], to->dims[1], params->padding) &&
              window(pool, 1, from->dims[2], to->dims[2], params->padding);
  if (!fits) return ed_reject(reason, reason_bytes, "expected images of the sizes that the windows give");
  if (from->dims[3] < ED_POOL_CHANNELS)
    return ed_reject(reason, reason_bytes, "expected at least %d channels, got %d", ED_POOL_CHANNELS, from->dims[3]);
  pool->height = from->dims[1];
  pool->width = from->dims[2];
  pool->channels = from->dims[3];
  pool->out_height = to->dims[1];
  pool->out_width = to->dims[2];
  bounds(to, activation, pool);
  *rows = (size_t)to->dims[0] * (size_t)to->dims[1];
  return true;
}
