// SPDX-License-Identifier: Apache-2.0
// Constants that a folded op unpacks.
#ifndef ED_UNPACK_H
#define ED_UNPACK_H

#include <stdbool.h>
#include <stddef.h>

#include "../tflite/abi.h"

// Writes what DEQUANTIZE makes of the constant `from`, `to->bytes` bytes, as the stock runtime does. `data` holds the
// values of `from`. False with the reason for types that it does not unpack.
bool ed_dequantize(const TfLiteTensor *from, const void *data, const TfLiteTensor *to, float *values, char *reason,
                   size_t reason_bytes);

#endif
