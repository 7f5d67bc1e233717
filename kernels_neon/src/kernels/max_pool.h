// SPDX-License-Identifier: Apache-2.0
// MAX_POOL_2D of 8-bit images, quantised alike before and after: nothing rounds.
#ifndef ED_MAX_POOL_H
#define ED_MAX_POOL_H

#include "pool.h"

bool ed_max_pool_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes);

#endif
