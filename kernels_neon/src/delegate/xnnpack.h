// SPDX-License-Identifier: Apache-2.0
// XNNPACK with its quantised operators, for a runtime that has them and does not use them by itself.
#ifndef ED_XNNPACK_H
#define ED_XNNPACK_H

#include "delegate.h"

// Makes the XNNPACK delegate of the runtime that `context` belongs to. NULL with the reason.
ed_xnnpack *ed_xnnpack_open(const TfLiteContext *context, int threads, char *error, size_t error_bytes);

// Lets it claim what is left.
TfLiteStatus ed_xnnpack_claim(ed_xnnpack *xnnpack, TfLiteContext *context);

void ed_xnnpack_close(ed_xnnpack *xnnpack);

#endif
