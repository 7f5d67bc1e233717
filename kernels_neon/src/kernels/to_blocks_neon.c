// SPDX-License-Identifier: Apache-2.0
#include "blocks.h"
#include "blocks_neon.h"

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  (void)scratch;
  const ed_blocks *state = job->state;
  const size_t depth = (size_t)state->depth, channels = (size_t)state->channels, read = ed_blocks_read(state);
  const bool is_plain = depth == 8 || depth == 16, moves = ed_moves_vectors(state);
  for (size_t unit = begin; unit < end; unit++) {
    for (size_t block = 0; block < (size_t)state->blocks; block++) {
      ed_block_row row = ed_block_row_of(state, unit, block);
      const uint8_t *from = (const uint8_t *)inputs[0] + row.image * read;
      uint8_t *to = (uint8_t *)outputs[0] + row.blocks * state->bytes;
      if (moves && (block + 4) * depth <= channels) {
        ed_spread_pixels(state, from, to);
        block += 3;
      } else if (is_plain && row.count == depth) {
        ed_convert_pixels(state, from, to, channels, depth);
      } else {
        ed_to_blocks_row(state, inputs[0], outputs[0], row);
      }
    }
  }
}

ED_KERNEL(to_blocks, neon, ed_to_blocks_prepare, run);
