// SPDX-License-Identifier: Apache-2.0
#include "max_pool.h"

#include <stdlib.h>

#include "../tflite/options.h"
#include "reject.h"
#include "requantise.h"

bool ed_max_pool_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes) {
  ed_pool pool, *state;
  size_t rows;
  if (!ed_pool_prepare(op, kOpMaxPool2d, &pool, &rows, reason, reason_bytes)) return false;
  if (!(state = malloc(sizeof *state))) return ed_reject(reason, reason_bytes, "out of memory");
  *state = pool;
  size_t row = (size_t)pool.width * (size_t)pool.channels;
  *job =
      (ed_job){.state = state, .units = rows, .unit_bytes = row * (size_t)(pool.filter[0] + 1), .scratch_bytes = row};
  return true;
}

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  (void)scratch;
  const ed_pool *pool = job->state;
  size_t channels = (size_t)pool->channels, row_bytes = (size_t)pool->width * channels;
  for (size_t row = begin; row < end; row++) {
    const uint8_t *image =
        (const uint8_t *)inputs[0] + row / (size_t)pool->out_height * (size_t)pool->height * row_bytes;
    uint8_t *to = (uint8_t *)outputs[0] + row * (size_t)pool->out_width * channels;
    ed_span rows = ed_pool_span(pool, 0, (int32_t)(row % (size_t)pool->out_height));
    for (int32_t x = 0; x < pool->out_width; x++, to += channels) {
      ed_span columns = ed_pool_span(pool, 1, x);
      for (size_t c = 0; c < channels; c++) {
        int32_t most = -128;
        for (int32_t y = rows.begin; y < rows.end; y++) {
          for (int32_t k = columns.begin; k < columns.end; k++) {
            uint8_t value = image[(size_t)y * row_bytes + (size_t)k * channels + c];
            int32_t found = pool->is_unsigned ? value : (int8_t)value;
            if (found > most) most = found;
          }
        }
        to[c] = (uint8_t)ed_clamp(most, pool->low, pool->high);
      }
    }
  }
}

ED_KERNEL(max_pool, scalar, ed_max_pool_prepare, run);
