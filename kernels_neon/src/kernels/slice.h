// SPDX-License-Identifier: Apache-2.0
// STRIDED_SLICE of up to five dimensions, with constant ranges: steps of any size and direction, axes taken away.
#ifndef ED_SLICE_H
#define ED_SLICE_H

#include "kernel.h"

bool ed_slice_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes);

#endif
