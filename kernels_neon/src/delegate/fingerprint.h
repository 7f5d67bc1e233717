// SPDX-License-Identifier: Apache-2.0
#ifndef ED_FINGERPRINT_H
#define ED_FINGERPRINT_H

#include <stdbool.h>
#include <stdint.h>

#include "../tflite/abi.h"
#include "sha256.h"

// The fingerprint of a graph of `ops` ops in a context that nothing was claimed in, as in `docs/plan-edp.md`. False if
// the context does not show its nodes, or there is no memory.
bool ed_fingerprint(TfLiteContext *context, int ops, uint8_t digest[ED_SHA256_BYTES]);

#endif
