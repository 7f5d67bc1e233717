// SPDX-License-Identifier: Apache-2.0
// What pools of 8-bit images have in common: windows, and the range that an activation leaves.
#ifndef ED_POOL_H
#define ED_POOL_H

#include "kernel.h"

// The state of a job; its units are rows of the output.
typedef struct {
  int32_t height, width, channels, out_height, out_width;
  int32_t filter[2], stride[2], before[2];  // height, width; padding before the image
  int32_t low, high;                        // bounds of the result
  bool is_unsigned;
} ed_pool;

// Fewer channels are no faster than in the stock runtime.
enum { ED_POOL_CHANNELS = 16 };

// A range of the input along one axis.
typedef struct {
  int32_t begin, end;
} ed_span;

bool ed_pool_prepare(const ed_op *op, int32_t builtin, ed_pool *pool, size_t *rows, char *reason, size_t reason_bytes);

// What the window of output `at` covers of the input along an axis (0: height) of that size.
static inline ed_span ed_pool_span(const ed_pool *pool, int axis, int32_t at) {
  int32_t size = axis ? pool->width : pool->height, begin = at * pool->stride[axis] - pool->before[axis];
  int32_t end = begin + pool->filter[axis];
  return (ed_span){begin < 0 ? 0 : begin, end > size ? size : end};
}

#endif
