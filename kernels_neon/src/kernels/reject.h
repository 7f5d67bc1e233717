// SPDX-License-Identifier: Apache-2.0
#ifndef ED_REJECT_H
#define ED_REJECT_H

#include <stdbool.h>
#include <stddef.h>

// Writes why a kernel does not compute an op, and gives false.
__attribute__((format(printf, 3, 4))) bool ed_reject(char *reason, size_t reason_bytes, const char *format, ...);

#endif
