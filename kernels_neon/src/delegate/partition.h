// SPDX-License-Identifier: Apache-2.0
// A delegate node that runs ops of one partition by the kernels of this library.
#ifndef ED_PARTITION_H
#define ED_PARTITION_H

#include "delegate.h"

TfLiteRegistration ed_partition_registration(void);

// Whether this library can run the partition: every op's back end, layout and kernel. False with what it cannot.
bool ed_partition_check(const ed_delegate *delegate, uint32_t partition, char *error, size_t error_bytes);

#endif
