// SPDX-License-Identifier: Apache-2.0
#include "../moves/moves.h"
#include "part.h"

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  (void)scratch;
  ed_moves_run_neon(job->state, inputs, outputs, begin, end);
}

ED_KERNEL(part, neon, ed_part_prepare, run);
