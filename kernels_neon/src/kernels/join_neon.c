// SPDX-License-Identifier: Apache-2.0
#include "../moves/moves.h"
#include "join.h"

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  (void)scratch;
  ed_moves_run_neon(job->state, inputs, outputs, begin, end);
}

ED_KERNEL(join, neon, ed_join_prepare, run);
