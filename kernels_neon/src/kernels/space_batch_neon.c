// SPDX-License-Identifier: Apache-2.0
#include "../moves/moves.h"
#include "space_batch.h"

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  (void)scratch;
  ed_moves_run_neon(job->state, inputs, outputs, begin, end);
}

ED_KERNEL(space_batch, neon, ed_space_batch_prepare, run);
