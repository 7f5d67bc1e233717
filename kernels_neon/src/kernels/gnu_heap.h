// SPDX-License-Identifier: Apache-2.0
// The heap of GNU's C++ library, which the stock runtime is built with, move by move: what comes first of equal values
// follows from it. https://gcc.gnu.org/onlinedocs/libstdc++/ (std::push_heap, std::pop_heap, std::partial_sort)
//
// Only the upper halves of values are compared; the root is the largest.
#ifndef ED_GNU_HEAP_H
#define ED_GNU_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool ed_gnu_less(uint64_t a, uint64_t b) {
  return a >> 32 < b >> 32;
}

// Lets a value rise from `hole`, at most to `top`.
static inline void ed_gnu_rise(uint64_t *heap, size_t hole, size_t top, uint64_t value) {
  while (hole > top && ed_gnu_less(heap[(hole - 1) / 2], value)) {
    heap[hole] = heap[(hole - 1) / 2];
    hole = (hole - 1) / 2;
  }
  heap[hole] = value;
}

// The hole sinks to a leaf, of equal children the right one moving up, and the value rises from there.
static inline void ed_gnu_fill(uint64_t *heap, size_t top, size_t count, uint64_t value) {
  size_t hole = top;
  while (2 * hole + 2 < count) {
    size_t child = 2 * hole + 2;
    child -= ed_gnu_less(heap[child], heap[child - 1]);
    heap[hole] = heap[child];
    hole = child;
  }
  if (2 * hole + 2 == count) {
    heap[hole] = heap[2 * hole + 1];
    hole = 2 * hole + 1;
  }
  ed_gnu_rise(heap, hole, top, value);
}

// Takes the largest off a heap of `count`.
static inline uint64_t ed_gnu_pop(uint64_t *heap, size_t count) {
  const uint64_t largest = heap[0];
  if (count > 1) ed_gnu_fill(heap, 0, count - 1, heap[count - 1]);
  return largest;
}

// std::partial_sort: the `wanted` least of `count`, in order, at the front.
static inline void ed_gnu_partial_sort(uint64_t *values, size_t wanted, size_t count) {
  for (size_t parent = wanted / 2; parent-- > 0;) ed_gnu_fill(values, parent, wanted, values[parent]);
  for (size_t i = wanted; i < count; i++) {
    const uint64_t value = values[i];
    if (!ed_gnu_less(value, values[0])) continue;
    values[i] = values[0];
    ed_gnu_fill(values, 0, wanted, value);
  }
  for (size_t left = wanted; left > 1; left--) values[left - 1] = ed_gnu_pop(values, left);
}

#endif
