// SPDX-License-Identifier: Apache-2.0
// What kernels ask of an op. Each writes why it is not so, and gives false.
#ifndef ED_EXPECT_H
#define ED_EXPECT_H

#include "kernel.h"

size_t ed_count(const ed_tensor *tensor);  // elements
size_t ed_element_bytes(TfLiteType type);  // 0 if it has none

// What `kernel.h` says of every tensor; `bytes` is what the runtime has for it.
bool ed_expect_sound(const ed_tensor *tensor, size_t bytes, char *reason, size_t reason_bytes);
bool ed_expect_operands(const ed_op *op, int inputs, int outputs, char *reason, size_t reason_bytes);
// int8 or uint8 with one scale.
bool ed_expect_bytes(const ed_tensor *tensor, char *reason, size_t reason_bytes);
bool ed_expect_type(const ed_tensor *tensor, TfLiteType type, char *reason, size_t reason_bytes);
bool ed_expect_same_shape(const ed_tensor *a, const ed_tensor *b, char *reason, size_t reason_bytes);

#endif
