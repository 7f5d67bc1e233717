// SPDX-License-Identifier: Apache-2.0
#include "../moves/moves.h"
#include "slice.h"

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  (void)scratch;
  ed_moves_run_neon(job->state, inputs, outputs, begin, end);
}

ED_KERNEL(slice, neon, ed_slice_prepare, run);
