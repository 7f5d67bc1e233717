// SPDX-License-Identifier: Apache-2.0
// RESIZE_BILINEAR of 8-bit images that get no smaller, to pixels that lie between those of the input at multiples of a
// sixteenth, quantised alike before and after.
//
// XNNPACK multiplies by fractions of 11 bits and rounds once, halves up. Of a sixteenth nothing is lost before that, so
// that the weighted sums here, of 16 bits, round to the same.
#ifndef ED_RESIZE_BILINEAR_H
#define ED_RESIZE_BILINEAR_H

#include "kernel.h"

enum { ED_RESIZE_ONE = 16, ED_RESIZE_HALF = ED_RESIZE_ONE * ED_RESIZE_ONE / 2 };  // a whole; of a sum of four

// Two rows or columns of the input and how much of each, in sixteenths.
typedef struct {
  int32_t at[2];
  uint8_t weight[2];
} ed_between;

// Of a row of few channels 16 elements of the output: where in a window of the input each is between, and how.
typedef struct {
  int32_t start;  // of the window, in elements
  uint8_t index[2][16];
  uint8_t weight[2][16];
} ed_few;

// A window has these 48 bytes or the first 32: 16 elements of the output touch no more columns of the input than of
// the output, and one.
enum { ED_RESIZE_FEW = 16, ED_RESIZE_FEWER = 8, ED_RESIZE_WINDOW = 48 };

// The state of a job; its units are rows of the output.
typedef struct {
  size_t height, channels, in_row, out_row;  // `height` of the input; elements of a row
  int32_t out_height, out_width;
  bool is_unsigned;
  ed_between *columns;
  ed_few *few;        // of fewer than ED_RESIZE_FEW channels
  ed_between rows[];  // `columns` follow them, and `few`
} ed_resize;

bool ed_resize_bilinear_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes);

// What a thread needs: two rows of the output's width, of 16 bits an element, and one of the input. Vectors may reach
// beyond the end of each.
static inline size_t ed_resize_row_bytes(const ed_resize *state) {
  return (2 * (state->out_row + 16) + 63) / 64 * 64;
}

#endif
