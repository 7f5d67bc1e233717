// SPDX-License-Identifier: Apache-2.0
// SOFTMAX of 8-bit rows, as the built-in kernel for aarch64 computes it (`optimized_ops.h`): exponentials of 16 bits
// from a table, their sum, and one factor for each row that scales them to 1/256.
//
// Trap: on x86-64 the same runtime adds exponentials in single precision, and its results differ by 1 now and then.
#ifndef ED_SOFTMAX_H
#define ED_SOFTMAX_H

#include <string.h>

#include "kernel.h"
#include "requantise.h"

// The state of a job; its units are rows. Exponentials are found by what a value is below the row's greatest.
typedef struct {
  size_t row;
  int32_t zero_point;
  bool is_unsigned;
  uint16_t exponential[256];
  uint8_t high[256], low[256];  // its bytes
  int far, near;                // the exponentials from there on are 0; give 0, whatever the sum
} ed_softmax;

bool ed_softmax_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes);

// What scales exponentials with that sum. The mantissa of a float has 24 bits, so that nothing rounds here.
static inline ed_factor ed_softmax_factor(int32_t sum) {
  float inverse = 1 / ((float)sum * (1.0f / 256));
  uint32_t bits;
  memcpy(&bits, &inverse, sizeof bits);
  return (ed_factor){(int32_t)((bits & 0x7fffff) | 0x800000) << 7, (int)(bits >> 23) - 126};
}

#endif
