// SPDX-License-Identifier: Apache-2.0
// Where tensors lie that live inside a partition, in one buffer that they share as their lives allow.
#ifndef ED_PLACEMENT_H
#define ED_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>

enum { ED_ALIGNMENT = 64 };

typedef struct {
  int tensor;
  size_t bytes;
  size_t first, last;  // steps during which it is needed
  size_t offset;       // found by `ed_place`
} ed_block;

// Places blocks as the planner's memory model does, so that a plan's figure is what is allocated: the largest first,
// then those needed first, then by tensor; each into the smallest gap that fits. Sorts them in that order, and gives
// the bytes of the buffer. False if there is no memory.
bool ed_place(ed_block *blocks, size_t count, size_t *bytes);

#endif
