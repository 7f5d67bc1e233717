// SPDX-License-Identifier: Apache-2.0
// SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND of images (rank 4) or rows (rank 3), with constant blocks and edges.
#ifndef ED_SPACE_BATCH_H
#define ED_SPACE_BATCH_H

#include "kernel.h"

bool ed_space_batch_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes);

#endif
