// SPDX-License-Identifier: Apache-2.0
// A tensor that an op of a partition reads or writes, and where it is.
#ifndef ED_OPERAND_H
#define ED_OPERAND_H

#include <stdbool.h>

#include "../kernels/kernel.h"
#include "steps.h"

// What a kernel is told of it. False with the reason for a tensor of which that cannot be told.
bool ed_operand_describe(TfLiteContext *context, const ed_steps *steps, const ed_operand *operand, ed_tensor *tensor,
                         char *reason, size_t reason_bytes);

// Whether a program or another subgraph that lends its memory has lent as much as it was prepared for.
bool ed_operand_is_there(const TfLiteContext *context, const ed_operand *operand);

// Where it lies in this run, with the memory inside the partition at `inside`; NULL for an absent one.
void *ed_operand_address(TfLiteContext *context, const ed_steps *steps, const ed_operand *operand, char *inside);

#endif
