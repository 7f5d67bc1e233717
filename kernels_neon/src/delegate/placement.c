// SPDX-License-Identifier: Apache-2.0
#include "placement.h"

#include <stdint.h>
#include <stdlib.h>

static int by_size(const void *a, const void *b) {
  const ed_block *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  if (x->first != y->first) return x->first < y->first ? -1 : 1;
  return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

static size_t aligned(size_t offset) {
  return (offset + ED_ALIGNMENT - 1) / ED_ALIGNMENT * ED_ALIGNMENT;
}

// `placed` are blocks in the order of their offsets. A gap is measured from where the block before it ends, as TFLite's
// planner has it.
static size_t best_fit(const ed_block *block, ed_block *const *placed, size_t count) {
  size_t end = 0, best = SIZE_MAX, smallest = SIZE_MAX;
  for (size_t i = 0; i < count; i++) {
    const ed_block *other = placed[i];
    if (other->last < block->first || other->first > block->last) continue;
    size_t start = aligned(end);
    if (start + block->bytes <= other->offset && other->offset - start < smallest) {
      best = start;
      smallest = other->offset - end;
    }
    if (other->offset + other->bytes > end) end = other->offset + other->bytes;
  }
  return best == SIZE_MAX ? aligned(end) : best;
}

bool ed_place(ed_block *blocks, size_t count, size_t *bytes) {
  *bytes = 0;
  ed_block **placed = malloc((count + 1) * sizeof *placed);
  if (!placed) return false;
  qsort(blocks, count, sizeof *blocks, by_size);
  for (size_t i = 0; i < count; i++) {
    ed_block *block = &blocks[i];
    block->offset = best_fit(block, placed, i);
    size_t at = i;
    for (; at && placed[at - 1]->offset > block->offset; at--) placed[at] = placed[at - 1];
    placed[at] = block;
    if (block->offset + block->bytes > *bytes) *bytes = block->offset + block->bytes;
  }
  free(placed);
  return true;
}
