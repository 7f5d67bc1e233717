// SPDX-License-Identifier: Apache-2.0
// CONCATENATION and PACK: tensors side by side along an axis, all quantised alike.
#ifndef ED_JOIN_H
#define ED_JOIN_H

#include "kernel.h"

bool ed_join_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes);

#endif
