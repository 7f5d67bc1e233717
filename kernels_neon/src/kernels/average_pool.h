// SPDX-License-Identifier: Apache-2.0
// AVERAGE_POOL_2D of 8-bit images, quantised alike before and after. The sum over the part of a window that is in the
// image, divided by that part's size, is rounded half away from zero: of the stored values, whatever their zero point.
#ifndef ED_AVERAGE_POOL_H
#define ED_AVERAGE_POOL_H

#include "pool.h"

// Of this many values a sum less the least that it can be, and half their number, fits 15 bits.
enum { ED_AVERAGE_SMALL = 127 };

// Whether no window has more. The scratch memory holds a sum for each column of a row of the input, of 16 bits then,
// else of 32.
static inline bool ed_average_pool_is_small(const ed_pool *pool) {
  int32_t height = pool->filter[0] < pool->height ? pool->filter[0] : pool->height;
  int32_t width = pool->filter[1] < pool->width ? pool->filter[1] : pool->width;
  return height * width <= ED_AVERAGE_SMALL;
}

bool ed_average_pool_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes);

// One row of the output; `column`.. of its pixels, `channel`.. of their values.
void ed_average_pool_pixel(const ed_pool *pool, const uint8_t *image, uint8_t *to, ed_span rows, ed_span columns,
                           int32_t channel);

#endif
