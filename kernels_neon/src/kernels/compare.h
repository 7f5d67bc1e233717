// SPDX-License-Identifier: Apache-2.0
// LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, EQUAL and NOT_EQUAL of 8-bit data, as the built-in kernels compute them:
// both inputs 8 bits up, times their scales, rounded to integers. Values that differ may so be equal.
#ifndef ED_COMPARE_H
#define ED_COMPARE_H

#include "pairs.h"
#include "requantise.h"

typedef struct {
  ed_pairs pairs;
  ed_factor factors[2];
  int32_t zero_points[2];
  int32_t builtin;
} ed_compare;

bool ed_compare_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes);
uint8_t ed_compare_of(const ed_compare *state, uint8_t a, uint8_t b);

#endif
