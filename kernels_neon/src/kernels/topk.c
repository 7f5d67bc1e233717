// SPDX-License-Identifier: Apache-2.0
#include "topk.h"

#include <stdlib.h>

#include "expect.h"
#include "reject.h"

bool ed_topk_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes) {
  if (!ed_expect_operands(op, 2, 2, reason, reason_bytes)) return false;
  const ed_tensor *from = &op->inputs[0], *count = &op->inputs[1];
  const ed_tensor *values = &op->outputs[0], *indices = &op->outputs[1];
  if (from->type != kTfLiteInt8 && from->type != kTfLiteUInt8 && from->type != kTfLiteFloat32)
    return ed_reject(reason, reason_bytes, "expected int8, uint8 or float32, got type %d", from->type);
  if (values->type != from->type || indices->type != kTfLiteInt32)
    return ed_reject(reason, reason_bytes, "expected values of type %d and int32 indices, got types %d and %d",
                     from->type, values->type, indices->type);
  if (!count->data || count->type != kTfLiteInt32)
    return ed_reject(reason, reason_bytes, "expected a constant int32 as k");
  if (from->rank < 1) return ed_reject(reason, reason_bytes, "expected at least one dimension");
  if (ed_count(count) != 1) return ed_reject(reason, reason_bytes, "expected one k, got %zu", ed_count(count));
  int32_t k = *(const int32_t *)count->data, length = from->dims[from->rank - 1];
  if (k < 1 || k > length) return ed_reject(reason, reason_bytes, "expected a k of 1 to %d, got %d", length, k);
  size_t rows = 1;
  for (int i = 0; i < from->rank - 1; i++) rows *= (size_t)from->dims[i];
  if (ed_count(values) != rows * (size_t)k || ed_count(indices) != rows * (size_t)k)
    return ed_reject(reason, reason_bytes, "expected outputs of %zu rows of %d", rows, k);
  ed_topk *topk = malloc(sizeof *topk);
  if (!topk) return ed_reject(reason, reason_bytes, "out of memory");
  *topk = (ed_topk){.is_float = from->type == kTfLiteFloat32,
                    .flip = from->type == kTfLiteInt8 ? 0x80 : 0,
                    .length = (size_t)length,
                    .k = (size_t)k};
  size_t bytes = topk->is_float ? 4 : 1;
  *job = (ed_job){.state = topk,
                  .units = rows,
                  .unit_bytes = topk->length * bytes + topk->k * (bytes + 4),
                  .scratch_bytes = topk->k * sizeof(uint64_t) + ED_TOPK_SHORT * sizeof(int32_t)};
  if (topk->is_float && ed_topk_is_counted(topk)) job->scratch_bytes = 2 * (topk->length + 1) * sizeof(uint64_t);
  return true;
}

void ed_topk_begin(const ed_topk *topk, const void *row, uint64_t *kept) {
  for (size_t i = 0; i < topk->k; i++) kept[i] = ~ed_rank(ed_topk_order(topk, row, i), (uint32_t)i);
  ed_heap_make(kept, topk->k);
}

void ed_topk_end(const ed_topk *topk, const void *row, uint64_t *kept, void *values, int32_t *indices) {
  for (size_t left = topk->k; left > 0; left--) {
    uint32_t index = ed_rank_index(~ed_heap_pop(kept, left));
    indices[left - 1] = (int32_t)index;
    if (topk->is_float)
      ((float *)values)[left - 1] = ((const float *)row)[index];
    else
      ((uint8_t *)values)[left - 1] = ((const uint8_t *)row)[index];
  }
}

static void bytes_by_counting(const ed_topk *topk, const uint8_t *row, uint8_t *values, int32_t *indices) {
  uint32_t places[256] = {0};  // by value, the largest first: how many there are, then where the next one goes
  const uint8_t flip = topk->flip ^ 0xff;
  for (size_t i = 0; i < topk->length; i++) places[row[i] ^ flip]++;
  uint32_t next = 0;
  for (int i = 0; i < 256; i++) {
    uint32_t found = places[i];
    places[i] = next;
    next += found;
  }
  for (size_t i = 0; i < topk->length; i++) {
    uint32_t place = places[row[i] ^ flip]++;
    if (place >= topk->k) continue;
    values[place] = row[i];
    indices[place] = (int32_t)i;
  }
}

// Byte by byte of the order, the lowest first. Gives where the sorted ranks are: in `from` again after four.
static void sort_ranks(uint64_t *from, uint64_t *to, size_t count) {
  uint32_t places[4][256] = {0};
  for (size_t i = 0; i < count; i++) {
    for (int digit = 0; digit < 4; digit++) places[digit][(from[i] >> (32 + 8 * digit)) & 0xff]++;
  }
  for (int digit = 0; digit < 4; digit++) {
    uint32_t next = 0;
    for (int i = 0; i < 256; i++) {
      uint32_t found = places[digit][i];
      places[digit][i] = next;
      next += found;
    }
    for (size_t i = 0; i < count; i++) to[places[digit][(from[i] >> (32 + 8 * digit)) & 0xff]++] = from[i];
    uint64_t *sorted = to;
    to = from;
    from = sorted;
  }
}

enum { CLASS_BITS = 11 };  // of the order: sign, exponent, and two bits of the mantissa

// What is surely not among the k largest is left out before the rest is sorted.
static void floats_by_counting(const ed_topk *topk, const float *row, float *values, int32_t *indices,
                               uint64_t *ranks) {
  uint32_t found[1 << CLASS_BITS] = {0};
  for (size_t i = 0; i < topk->length; i++) found[ed_order_of_float(row[i]) >> (32 - CLASS_BITS)]++;
  size_t count = 0;
  uint32_t least = 1 << CLASS_BITS;
  while (count < topk->k) count += found[--least];
  count = 0;
  for (size_t i = 0; i < topk->length; i++) {
    const uint32_t order = ed_order_of_float(row[i]);
    ranks[count] = ed_rank(order, (uint32_t)i);
    count += order >> (32 - CLASS_BITS) >= least;
  }
  sort_ranks(ranks, ranks + topk->length + 1, count);
  for (size_t i = 0; i < topk->k; i++) {
    indices[i] = (int32_t)ed_rank_index(ranks[i]);
    values[i] = row[indices[i]];
  }
}

bool ed_topk_by_counting(const ed_topk *topk, const void *row, void *values, int32_t *indices, void *scratch) {
  if (!ed_topk_is_counted(topk)) return false;
  if (topk->is_float)
    floats_by_counting(topk, row, values, indices, scratch);
  else
    bytes_by_counting(topk, row, values, indices);
  return true;
}

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  const ed_topk *topk = job->state;
  const size_t bytes = topk->is_float ? 4 : 1;
  for (size_t unit = begin; unit < end; unit++) {
    const uint8_t *row = (const uint8_t *)inputs[0] + unit * topk->length * bytes;
    uint8_t *values = (uint8_t *)outputs[0] + unit * topk->k * bytes;
    int32_t *indices = (int32_t *)outputs[1] + unit * topk->k;
    ed_topk_begin(topk, row, scratch);
    for (size_t i = topk->k; i < topk->length; i++)
      ed_topk_offer(scratch, topk->k, ed_rank(ed_topk_order(topk, row, i), (uint32_t)i));
    ed_topk_end(topk, row, scratch, values, indices);
  }
}

ED_KERNEL(topk, scalar, ed_topk_prepare, run);
