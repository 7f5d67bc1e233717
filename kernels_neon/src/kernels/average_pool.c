// SPDX-License-Identifier: Apache-2.0
#include "average_pool.h"

#include <stdlib.h>

#include "../tflite/options.h"
#include "reject.h"
#include "requantise.h"

bool ed_average_pool_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes) {
  ed_pool pool, *state;
  size_t rows;
  if (!ed_pool_prepare(op, kOpAveragePool2d, &pool, &rows, reason, reason_bytes)) return false;
  if (!(state = malloc(sizeof *state))) return ed_reject(reason, reason_bytes, "out of memory");
  *state = pool;
  size_t row = (size_t)pool.out_width * (size_t)pool.channels;
  *job = (ed_job){.state = state, .units = rows, .unit_bytes = row * (1 + (size_t)(pool.filter[0] * pool.filter[1]))};
  job->scratch_bytes = (size_t)pool.width * (size_t)pool.channels * (ed_average_pool_is_small(state) ? 2 : 4);
  return true;
}

void ed_average_pool_pixel(const ed_pool *pool, const uint8_t *image, uint8_t *to, ed_span rows, ed_span columns,
                           int32_t channel) {
  int32_t count = (rows.end - rows.begin) * (columns.end - columns.begin);
  for (int32_t c = channel; c < pool->channels; c++) {
    int32_t sum = 0;
    for (int32_t y = rows.begin; y < rows.end; y++) {
      for (int32_t x = columns.begin; x < columns.end; x++) {
        uint8_t value = image[((size_t)y * (size_t)pool->width + (size_t)x) * (size_t)pool->channels + (size_t)c];
        sum += pool->is_unsigned ? value : (int8_t)value;
      }
    }
    int32_t mean = sum > 0 ? (sum + count / 2) / count : (sum - count / 2) / count;
    to[c] = (uint8_t)ed_clamp(mean, pool->low, pool->high);
  }
}

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  (void)scratch;
  const ed_pool *pool = job->state;
  size_t channels = (size_t)pool->channels, image = (size_t)pool->height * (size_t)pool->width * channels;
  for (size_t row = begin; row < end; row++) {
    const uint8_t *from = (const uint8_t *)inputs[0] + row / (size_t)pool->out_height * image;
    uint8_t *to = (uint8_t *)outputs[0] + row * (size_t)pool->out_width * channels;
    ed_span rows = ed_pool_span(pool, 0, (int32_t)(row % (size_t)pool->out_height));
    for (int32_t x = 0; x < pool->out_width; x++, to += channels)
      ed_average_pool_pixel(pool, from, to, rows, ed_pool_span(pool, 1, x), 0);
  }
}

ED_KERNEL(average_pool, scalar, ed_average_pool_prepare, run);
