// SPDX-License-Identifier: Apache-2.0
// Ops that only move elements, as copies of boxes: runs of bytes that lie some steps apart in the input and in the
// output.
#ifndef ED_MOVES_H
#define ED_MOVES_H

#include "../kernels/kernel.h"

// Short runs that follow one another in the output, looked up in a window of the input some at a time; the bytes of a
// vector that are left when the last whole window was used are looked up in one that ends with the row.
typedef struct {
  size_t at_once;      // runs; 0 if the box is not done like that
  size_t window;       // bytes: 32 or 64
  uint8_t index[16];   // where in the window each byte of a vector is
  uint8_t at_end[16];  // the same for the last 16 bytes of a row, in the last window of the row
} ed_gather;

// Runs at every index of a box of `rank` dimensions, the last one varying fastest; all steps and starts are in bytes.
typedef struct {
  int input;  // number of the operand; negative if the runs are filled with `fill`
  int output;
  uint8_t fill;
  int rank;
  int32_t dims[ED_MAX_RANK];
  ptrdiff_t from[ED_MAX_RANK], to[ED_MAX_RANK];
  ptrdiff_t from_start, to_start;
  size_t run;    // bytes that follow one another in both
  size_t first;  // unit of the first run: units of a job are runs
  ed_gather gather;
} ed_box;

typedef struct {
  int count, room;
  // Two to four boxes of short runs, whose runs are side by side in one tensor and alone in another each: a unit is one
  // run of each box.
  bool is_woven;
  ed_box boxes[];
} ed_moves;

ed_moves *ed_moves_new(int room);  // NULL if there is no memory
// Adds a box, whose `run` is one element or more; simplifies it: runs that follow one another become one.
void ed_moves_add(ed_moves *moves, const ed_box *box);
// The job that does them.
ed_job ed_moves_job(ed_moves *moves);

// Steps of a dense tensor, in bytes.
void ed_dense_steps(const ed_tensor *tensor, ptrdiff_t *steps);
// Whether the tensors have the same type, quantised alike, so that moving bytes is all.
bool ed_expect_alike(const ed_tensor *a, const ed_tensor *b, char *reason, size_t reason_bytes);
// A constant of one or more integers, widened; false with a reason if it is none, or has not `count`.
bool ed_expect_integers(const ed_tensor *tensor, int count, int64_t *values, char *reason, size_t reason_bytes);

// Copies `count` runs that follow one another in the last dimension of a box, which has one. `from` may be read between
// the first and the last byte of them all, and `to` be written only where runs go.
typedef void (*ed_copy_runs)(const ed_box *box, uint8_t *to, const uint8_t *from, size_t count);

// Runs begin..end, with a function that copies.
void ed_moves_run(const ed_moves *moves, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                  ed_copy_runs copy);

void ed_copy_runs_scalar(const ed_box *box, uint8_t *to, const uint8_t *from, size_t count);
void ed_copy_runs_neon(const ed_box *box, uint8_t *to, const uint8_t *from, size_t count);
void ed_moves_run_neon(const ed_moves *moves, const void *const *inputs, void *const *outputs, size_t begin,
                       size_t end);

#endif
