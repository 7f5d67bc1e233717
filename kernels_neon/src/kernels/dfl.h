// SPDX-License-Identifier: Apache-2.0
// The distribution focal loss head of YOLO: SOFTMAX of rows of int8, and a CONV_2D of 1x1 with one result, the weighted
// mean of a row's bins. Rows of probabilities never leave the scratch memory.
//
// Bits: those of `softmax`, and then of XNNPACK's convolution (`qs8-qc8w-gemm/*-minmax-fp32-*`), which scales its sum
// in single precision and rounds once, halves to even.
#ifndef ED_DFL_H
#define ED_DFL_H

#include "softmax.h"

enum { ED_DFL_ROWS = 64 };  // that pass through the scratch memory at once

// The state of a job; its units are rows.
typedef struct {
  ed_softmax softmax;
  size_t row;
  size_t scratch_bytes;  // of it, what the softmax needs
  int32_t bias;          // with what the zero point of the probabilities adds
  float scale;
  int32_t zero_point;
  int8_t weights[];  // zeros up to a whole vector
} ed_dfl;

bool ed_dfl_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes);

typedef void (*ed_dfl_means)(const ed_dfl *state, const int8_t *bins, int8_t *to, size_t rows);

// Rows begin..end of a job by `softmax`, and then `means` of ED_DFL_ROWS rows or fewer. Of the bins as many are there
// as ED_DFL_ROWS rows and a vector have, and what is behind the rows is any.
void ed_dfl_run(const ed_job *job, const ed_kernel *softmax, ed_dfl_means means, const int8_t *from, int8_t *to,
                size_t begin, size_t end, void *scratch);

#endif
