// SPDX-License-Identifier: Apache-2.0
// Ranks: whole numbers that order (value, index) pairs, the larger value first, of equal ones the lower index first;
// and a heap of them.
#ifndef ED_RANKING_H
#define ED_RANKING_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

// A number that orders floats as their values; NaNs lie outside of the infinities, by their sign.
static inline uint32_t ed_order_of_float(float value) {
  value += 0.0f;  // one zero
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits ^ ((bits >> 31) ? UINT32_MAX : 0x80000000u);
}

// Lower is better.
static inline uint64_t ed_rank(uint32_t order, uint32_t index) {
  return (uint64_t)~order << 32 | index;
}
static inline uint32_t ed_rank_index(uint64_t rank) {
  return (uint32_t)rank;
}

// The lowest of `count` ranks is at the root, rank 0.
static inline void ed_heap_sink(uint64_t *heap, size_t count, size_t hole, uint64_t rank) {
  for (size_t child; (child = 2 * hole + 1) < count; hole = child) {
    child += child + 1 < count && heap[child + 1] < heap[child];
    if (rank <= heap[child]) break;
    heap[hole] = heap[child];
  }
  heap[hole] = rank;
}

static inline void ed_heap_make(uint64_t *heap, size_t count) {
  for (size_t i = count / 2; i-- > 0;) ed_heap_sink(heap, count, i, heap[i]);
}

// Takes the root off a heap of `count`.
static inline uint64_t ed_heap_pop(uint64_t *heap, size_t count) {
  uint64_t root = heap[0];
  ed_heap_sink(heap, count - 1, 0, heap[count - 1]);
  return root;
}

#endif
