// SPDX-License-Identifier: Apache-2.0
// TOPK_V2 of int8, uint8 and float32: the k largest of each row, largest first, of equal ones the lower index first.
//
// Without NaNs that order is the only one, whatever the runtime sorts with. A NaN has no place in the stock kernel's
// order, whose result then depends on its C++ library; here it lies outside of the infinities, by its sign.
#ifndef ED_TOPK_H
#define ED_TOPK_H

#include "kernel.h"
#include "ranking.h"

enum { ED_TOPK_SHORT = 512 };  // a row of which a variant may keep a copy in its scratch memory

typedef struct {
  bool is_float;
  uint8_t flip;  // of bytes, what makes their order that of unsigned ones
  size_t length, k;
} ed_topk;

bool ed_topk_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes);

static inline uint32_t ed_topk_order(const ed_topk *topk, const void *row, size_t i) {
  return topk->is_float ? ed_order_of_float(((const float *)row)[i]) : ((const uint8_t *)row)[i] ^ topk->flip;
}

// Where counting takes less than a heap: it goes with the length, a heap with what is kept too.
static inline bool ed_topk_is_counted(const ed_topk *topk) {
  return topk->is_float ? topk->length >= 512 && topk->k * 16 >= topk->length
                        : topk->length >= 32 && topk->k > 16 && topk->k * 8 >= topk->length;
}

// Sorts rows of which many values are wanted by counting, without comparing. False if that is not so.
bool ed_topk_by_counting(const ed_topk *topk, const void *row, void *values, int32_t *indices, void *scratch);

// `kept` is a heap of the complements of k ranks, the worst at the root.
void ed_topk_begin(const ed_topk *topk, const void *row, uint64_t *kept);
void ed_topk_end(const ed_topk *topk, const void *row, uint64_t *kept, void *values, int32_t *indices);

static inline void ed_topk_offer(uint64_t *kept, size_t k, uint64_t rank) {
  if (~rank > kept[0]) ed_heap_sink(kept, k, 0, ~rank);
}

#endif
