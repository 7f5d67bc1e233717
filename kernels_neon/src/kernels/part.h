// SPDX-License-Identifier: Apache-2.0
// SPLIT, SPLIT_V and UNPACK: the parts of a tensor along a constant axis, all quantised alike.
#ifndef ED_PART_H
#define ED_PART_H

#include "kernel.h"

bool ed_part_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes);

#endif
