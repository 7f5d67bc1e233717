// SPDX-License-Identifier: Apache-2.0
// QUANTIZE between uint8 and int8 of one scale, zero points 128 apart: the top bit flips, nothing rounds.
#ifndef ED_FLIP_SIGN_H
#define ED_FLIP_SIGN_H

#include "kernel.h"

bool ed_flip_sign_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes);

#endif
