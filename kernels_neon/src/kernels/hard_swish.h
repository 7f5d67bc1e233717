// SPDX-License-Identifier: Apache-2.0
#ifndef ED_HARD_SWISH_H
#define ED_HARD_SWISH_H

#include "kernel.h"

// HARD_SWISH of an input less its zero point, in the output's units; the caller clamps. As the built-in kernel for ARM
// computes it, in fixed point of 16 bits (`optimized_ops.h`).
//
// Trap: that kernel takes eight values at a time with NEON, which cuts products downwards and rounds halves up when it
// shifts, and what is left over one by one, which cuts towards zero and rounds halves away from it. On x86-64 all
// values are computed like those left over.
int32_t ed_hard_swish(const ed_op *op, int32_t x, bool is_left_over);

enum { ED_HARD_SWISH_BLOCK = 8 };

#endif
