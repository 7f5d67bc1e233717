// SPDX-License-Identifier: Apache-2.0
#include "unpack.h"

#include <string.h>

#include "../kernels/reject.h"

static float from_half(uint16_t half) {
  uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 0x1f, fraction = half & 0x3ff, bits;
  if (exponent == 0x1f) {
    bits = sign | 0x7f800000 | fraction << 13;
  } else if (exponent) {
    bits = sign | (exponent + 112) << 23 | fraction << 13;
  } else {  // a multiple of 2^-24: exact in a float
    float value = (float)fraction * 0x1p-24f;
    memcpy(&bits, &value, sizeof bits);
    bits |= sign;
  }
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static int32_t stored(TfLiteType type, const void *data, size_t i) {
  switch (type) {
    case kTfLiteInt8:
      return ((const int8_t *)data)[i];
    case kTfLiteUInt8:
      return ((const uint8_t *)data)[i];
    default: {
      int16_t value;
      memcpy(&value, (const char *)data + 2 * i, sizeof value);
      return value;
    }
  }
}

static bool dequantize_integers(const TfLiteTensor *from, const void *data, size_t count, float *values, char *reason,
                                size_t reason_bytes) {
  const TfLiteAffineQuantization *q =
      from->quantization.type == kTfLiteAffineQuantization ? from->quantization.params : NULL;
  if (!q || !q->scale || !q->scale->size || !q->zero_point || q->zero_point->size != q->scale->size)
    return ed_reject(reason, reason_bytes, "the constant has no scales");
  int channels = q->scale->size, axis = q->quantized_dimension;
  size_t inner = 1;
  if (channels > 1) {
    if (axis < 0 || axis >= from->dims->size || from->dims->data[axis] != channels)
      return ed_reject(reason, reason_bytes, "the constant has %d scales, not one for each channel", channels);
    for (int d = axis + 1; d < from->dims->size; d++) inner *= (size_t)from->dims->data[d];
  }
  for (size_t i = 0; i < count; i++) {
    size_t channel = channels > 1 ? i / inner % (size_t)channels : 0;
    int64_t value = (int64_t)stored(from->type, data, i) - q->zero_point->data[channel];
    values[i] = (float)((double)q->scale->data[channel] * (double)value);
  }
  return true;
}

bool ed_dequantize(const TfLiteTensor *from, const void *data, const TfLiteTensor *to, float *values, char *reason,
                   size_t reason_bytes) {
  size_t count = to->bytes / sizeof *values;
  size_t width = from->type == kTfLiteFloat16 || from->type == kTfLiteInt16 ? 2 : 1;
  if (to->type != kTfLiteFloat32 || from->bytes != count * width)
    return ed_reject(reason, reason_bytes, "expected a constant of %zu elements and a float32 result", count);
  switch (from->type) {
    case kTfLiteFloat16:
      for (size_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, (const char *)data + 2 * i, sizeof half);
        values[i] = from_half(half);
      }
      return true;
    case kTfLiteInt8:
    case kTfLiteUInt8:
    case kTfLiteInt16:
      return dequantize_integers(from, data, count, values, reason, reason_bytes);
    default:
      return ed_reject(reason, reason_bytes, "constants of type %d are not unpacked", from->type);
  }
}
