// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "../kernels/neon.h"
#include "moves.h"

enum { LARGE = 128 };  // bytes from which on a call of memcpy is worth it

// The runs that are left: where they go, where they are, how many, and the steps from one to the next.
typedef struct {
  uint8_t *to;
  const uint8_t *from;
  size_t count;
  ptrdiff_t to_step, from_step;
} rest;

static inline void pass(rest *left, size_t runs) {
  left->to += (ptrdiff_t)runs * left->to_step;
  left->from += (ptrdiff_t)runs * left->from_step;
  left->count -= runs;
}

// Runs of BYTES to twice as many: the first and the last BYTES of each, which may overlap.
#define ENDS(BYTES, TYPE)                                                          \
  static void copy_ends_##BYTES(rest left, size_t run) {                           \
    size_t last = run - BYTES;                                                     \
    for (; left.count && !last; pass(&left, 1)) memcpy(left.to, left.from, BYTES); \
    for (; left.count; pass(&left, 1)) {                                           \
      TYPE head, tail;                                                             \
      memcpy(&head, left.from, BYTES);                                             \
      memcpy(&tail, left.from + last, BYTES);                                      \
      memcpy(left.to, &head, BYTES);                                               \
      memcpy(left.to + last, &tail, BYTES);                                        \
    }                                                                              \
  }

ENDS(1, uint8_t)
ENDS(2, uint16_t)
ENDS(4, uint32_t)
ENDS(8, uint64_t)

// Runs of up to 16 bytes that follow one another in the output: each is written with what comes after it, which the
// next one overwrites. Gives those that are left: the last one.
static rest copy_over(rest left) {
  ptrdiff_t from = left.from_step, to = left.to_step;
  for (; left.count > 4; pass(&left, 4)) {
    uint8x16_t a = vld1q_u8(left.from), b = vld1q_u8(left.from + from);
    uint8x16_t c = vld1q_u8(left.from + 2 * from), d = vld1q_u8(left.from + 3 * from);
    vst1q_u8(left.to, a);
    vst1q_u8(left.to + to, b);
    vst1q_u8(left.to + 2 * to, c);
    vst1q_u8(left.to + 3 * to, d);
  }
  for (; left.count > 1; pass(&left, 1)) vst1q_u8(left.to, vld1q_u8(left.from));
  return left;
}

// Runs of 16 bytes.
static void copy_16(rest left) {
  left = copy_over(left);
  if (left.count) vst1q_u8(left.to, vld1q_u8(left.from));
}

// Runs of VECTORS vectors, of which the last may overlap the one before.
static inline __attribute__((always_inline)) void copy_vectors(rest left, size_t run, size_t vectors) {
  size_t last = run - 16;
  for (; left.count; pass(&left, 1)) {
    uint8x16_t head[3], tail = vld1q_u8(left.from + last);
    for (size_t i = 0; i + 1 < vectors; i++) head[i] = vld1q_u8(left.from + 16 * i);
    for (size_t i = 0; i + 1 < vectors; i++) vst1q_u8(left.to + 16 * i, head[i]);
    vst1q_u8(left.to + last, tail);
  }
}

static void copy_64(rest left) {
  for (; left.count > 1; pass(&left, 2)) {
    uint8x16x4_t first = vld1q_u8_x4(left.from), second = vld1q_u8_x4(left.from + left.from_step);
    vst1q_u8_x4(left.to, first);
    vst1q_u8_x4(left.to + left.to_step, second);
  }
  if (left.count) vst1q_u8_x4(left.to, vld1q_u8_x4(left.from));
}

static void copy_long(rest left, size_t run) {
  for (; left.count; pass(&left, 1)) {
    uint8_t *to = left.to;
    const uint8_t *from = left.from, *end = from + run;
    for (; end - from >= 64; from += 64, to += 64) {
      uint8x16_t a = vld1q_u8(from), b = vld1q_u8(from + 16), c = vld1q_u8(from + 32), d = vld1q_u8(from + 48);
      vst1q_u8(to, a);
      vst1q_u8(to + 16, b);
      vst1q_u8(to + 32, c);
      vst1q_u8(to + 48, d);
    }
    for (; end - from >= 16; from += 16, to += 16) vst1q_u8(to, vld1q_u8(from));
    if (from < end) vst1q_u8(left.to + run - 16, vld1q_u8(left.from + run - 16));
  }
}

// Whole windows, some runs each, until none fits in what may be read and written any more.
static inline __attribute__((always_inline)) rest gather(rest left, size_t run, const ed_gather *how, size_t window) {
  const uint8x16_t index = vld1q_u8(how->index);
  size_t read = (left.count - 1) * (size_t)left.from_step + run, written = left.count * run;
  if (read < window || written < 16) return left;
  size_t by_read = (read - window) / (size_t)left.from_step + 1, by_write = (written - 16) / run + 1;
  size_t most = by_read < by_write ? by_read : by_write, step = how->at_once;
  ptrdiff_t from = (ptrdiff_t)step * left.from_step, to = (ptrdiff_t)step * left.to_step;
  size_t times = (most + step - 1) / step;
  for (size_t i = 0; i < times; i++) {
    uint8x16_t found =
        window == 32 ? vqtbl2q_u8(vld1q_u8_x2(left.from), index) : vqtbl4q_u8(vld1q_u8_x4(left.from), index);
    vst1q_u8(left.to, found);
    left.from += from;
    left.to += to;
  }
  left.count -= times * step;
  return left;
}

// The last 16 bytes of a whole row; `left` is what is left of it.
static void gather_end(rest left, size_t run, const ed_gather *how) {
  const uint8_t *from = left.from + (ptrdiff_t)(left.count - 1) * left.from_step + run - how->window;
  uint8_t *to = left.to + left.count * run - 16;
  const uint8x16_t index = vld1q_u8(how->at_end);
  vst1q_u8(to, how->window == 32 ? vqtbl2q_u8(vld1q_u8_x2(from), index) : vqtbl4q_u8(vld1q_u8_x4(from), index));
}

static void copy_short(rest left, size_t run) {
  if (run >= 8)
    copy_ends_8(left, run);
  else if (run >= 4)
    copy_ends_4(left, run);
  else if (run >= 2)
    copy_ends_2(left, run);
  else
    copy_ends_1(left, run);
}

static void gather_row(rest left, size_t run, const ed_gather *how, bool is_whole) {
  left = how->window == 32 ? gather(left, run, how, 32) : gather(left, run, how, 64);
  if (is_whole && left.count) {
    // Runs of which a byte is before the last 16.
    size_t before = left.count * run > 16 ? (left.count * run - 16 + run - 1) / run : 0;
    rest first = left;
    first.count = before;
    copy_short(first, run);
    gather_end(left, run, how);
  } else {
    copy_short(left, run);
  }
}

void ed_copy_runs_neon(const ed_box *box, uint8_t *to, const uint8_t *from, size_t count) {
  size_t run = box->run;
  int last = box->rank - 1;
  rest left = {to, from, count, box->to[last], box->from[last]};
  if (box->gather.at_once) {
    gather_row(left, run, &box->gather, count == (size_t)box->dims[last]);
  } else if (run < 16) {
    if (run > 8 && left.to_step == (ptrdiff_t)run && left.from_step >= (ptrdiff_t)run) left = copy_over(left);
    copy_short(left, run);
  } else if (run == 16) {
    copy_16(left);
  } else if (run <= 32) {
    copy_vectors(left, run, 2);
  } else if (run <= 48) {
    copy_vectors(left, run, 3);
  } else if (run < 64) {
    copy_vectors(left, run, 4);
  } else if (run == 64) {
    copy_64(left);
  } else if (run < LARGE) {
    copy_long(left, run);
  } else {
    ed_copy_runs_scalar(box, to, from, count);
  }
}
