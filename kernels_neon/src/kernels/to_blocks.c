// SPDX-License-Identifier: Apache-2.0
#include "blocks.h"

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  (void)scratch;
  const ed_blocks *state = job->state;
  for (size_t unit = begin; unit < end; unit++) {
    for (size_t block = 0; block < (size_t)state->blocks; block++)
      ed_to_blocks_row(state, inputs[0], outputs[0], ed_block_row_of(state, unit, block));
  }
}

ED_KERNEL(to_blocks, scalar, ed_to_blocks_prepare, run);
