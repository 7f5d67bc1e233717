// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "../kernels/neon.h"
#include "moves.h"

enum { LARGE = 1024 };  // bytes from which on a call of memcpy is worth it

// The runs that are left: where they go, where they are, how many, and the steps from one to the next.
typedef struct {
  uint8_t *to;
  const uint8_t *from;
  size_t count;
  ptrdiff_t to_step, from_step;
} rest;

// The same number, of which a compiler knows nothing: from multiples of a step it would make sums in the loop, while
// loads and stores add a register for free.
static inline ptrdiff_t opaque(ptrdiff_t value) {
  __asm__("" : "+r"(value));
  return value;
}

static inline void pass(rest *left, size_t runs) {
  left->to += (ptrdiff_t)runs * left->to_step;
  left->from += (ptrdiff_t)runs * left->from_step;
  left->count -= runs;
}

// Where the second, third and fourth run are; the loops below do four at a time.
typedef struct {
  ptrdiff_t second, third, fourth;
} offsets;

static inline offsets offsets_of(ptrdiff_t step) {
  return (offsets){step, opaque(2 * step), opaque(3 * step)};
}

// Runs of BYTES to twice as many: the first and the last BYTES of each, which may overlap; `last` is where the last
// ones are.
#define ENDS(BYTES, TYPE)                                                                                    \
  typedef struct {                                                                                           \
    TYPE head, tail;                                                                                         \
  } ends_##BYTES;                                                                                            \
  static inline ends_##BYTES read_##BYTES(const uint8_t *from, size_t last) {                                \
    ends_##BYTES found;                                                                                      \
    memcpy(&found.head, from, BYTES);                                                                        \
    memcpy(&found.tail, from + last, BYTES);                                                                 \
    return found;                                                                                            \
  }                                                                                                          \
  static inline void write_##BYTES(uint8_t *to, ends_##BYTES found, size_t last) {                           \
    memcpy(to, &found.head, BYTES);                                                                          \
    if (last) memcpy(to + last, &found.tail, BYTES);                                                         \
  }                                                                                                          \
  static inline __attribute__((always_inline)) rest copy_ends_##BYTES(rest left, size_t last) {              \
    const offsets from = offsets_of(left.from_step), to = offsets_of(left.to_step);                          \
    for (; left.count >= 4; pass(&left, 4)) {                                                                \
      const ends_##BYTES a = read_##BYTES(left.from, last), b = read_##BYTES(left.from + from.second, last); \
      const ends_##BYTES c = read_##BYTES(left.from + from.third, last);                                     \
      const ends_##BYTES d = read_##BYTES(left.from + from.fourth, last);                                    \
      write_##BYTES(left.to, a, last);                                                                       \
      write_##BYTES(left.to + to.second, b, last);                                                           \
      write_##BYTES(left.to + to.third, c, last);                                                            \
      write_##BYTES(left.to + to.fourth, d, last);                                                           \
    }                                                                                                        \
    for (; left.count; pass(&left, 1)) write_##BYTES(left.to, read_##BYTES(left.from, last), last);          \
    return left;                                                                                             \
  }                                                                                                          \
  static void copy_##BYTES(rest left, size_t run) {                                                          \
    if (run > BYTES)                                                                                         \
      copy_ends_##BYTES(left, run - BYTES);                                                                  \
    else                                                                                                     \
      copy_ends_##BYTES(left, 0);                                                                            \
  }

ENDS(1, uint8_t)
ENDS(2, uint16_t)
ENDS(4, uint32_t)
ENDS(8, uint64_t)
ENDS(16, uint8x16_t)

// Vectors that follow one another in the input or in the output.
static void spread_16(rest left) {
  const offsets to = offsets_of(left.to_step);
  for (; left.count >= 4; pass(&left, 4)) {
    const uint8x16x4_t all = vld1q_u8_x4(left.from);
    vst1q_u8(left.to, all.val[0]);
    vst1q_u8(left.to + to.second, all.val[1]);
    vst1q_u8(left.to + to.third, all.val[2]);
    vst1q_u8(left.to + to.fourth, all.val[3]);
  }
  copy_16(left, 16);
}

static void collect_16(rest left) {
  const offsets from = offsets_of(left.from_step);
  for (; left.count >= 4; pass(&left, 4)) {
    const uint8x16x4_t all = {{vld1q_u8(left.from), vld1q_u8(left.from + from.second), vld1q_u8(left.from + from.third),
                               vld1q_u8(left.from + from.fourth)}};
    vst1q_u8_x4(left.to, all);
  }
  copy_16(left, 16);
}

// Runs of 9 to 15 bytes that follow one another in the output: each but the last is written with what comes after it,
// which the next one overwrites.
static void copy_over(rest left, size_t run) {
  rest before = left;
  before.count--;
  rest end = copy_ends_16(before, 0);
  end.count = 1;
  copy_8(end, run);
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

// Runs of one or two times 64 bytes.
static inline __attribute__((always_inline)) void copy_blocks(rest left, size_t blocks) {
  for (; left.count; pass(&left, 1)) {
    const uint8x16x4_t first = vld1q_u8_x4(left.from), second = vld1q_u8_x4(left.from + 64 * (blocks - 1));
    vst1q_u8_x4(left.to, first);
    if (blocks > 1) vst1q_u8_x4(left.to + 64, second);
  }
}

static inline __attribute__((always_inline)) void copy_long(rest left, size_t run) {
  for (; left.count; pass(&left, 1)) {
    uint8_t *to = left.to;
    const uint8_t *from = left.from;
    size_t bytes = run;
    for (; bytes >= 128; bytes -= 128, from += 128, to += 128) {
      const uint8x16x4_t first = vld1q_u8_x4(from), second = vld1q_u8_x4(from + 64);
      vst1q_u8_x4(to, first);
      vst1q_u8_x4(to + 64, second);
    }
    if (!bytes) continue;
    for (; bytes >= 16; bytes -= 16, from += 16, to += 16) vst1q_u8(to, vld1q_u8(from));
    vst1q_u8(left.to + run - 16, vld1q_u8(left.from + run - 16));
  }
}

static inline uint8x16_t look_up(const uint8_t *from, uint8x16_t index, size_t window) {
  return window == 32 ? vqtbl2q_u8(vld1q_u8_x2(from), index) : vqtbl4q_u8(vld1q_u8_x4(from), index);
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
  const ptrdiff_t second = opaque(from), third = opaque(from), fourth = opaque(from), next = opaque(from);
  const offsets at = offsets_of(to);
  size_t i = 0;
  for (; i + 4 <= times; i += 4, left.to += 4 * to) {
    uint8x16_t a = look_up(left.from, index, window), b = look_up(left.from += second, index, window);
    uint8x16_t c = look_up(left.from += third, index, window), d = look_up(left.from += fourth, index, window);
    left.from += next;
    vst1q_u8(left.to, a);
    vst1q_u8(left.to + at.second, b);
    vst1q_u8(left.to + at.third, c);
    vst1q_u8(left.to + at.fourth, d);
  }
  for (; i < times; i++, left.from += from, left.to += to) vst1q_u8(left.to, look_up(left.from, index, window));
  left.count -= times * step;
  return left;
}

// The last 16 bytes of a whole row; `left` is what is left of it.
static void gather_end(rest left, size_t run, const ed_gather *how) {
  const uint8_t *from = left.from + (ptrdiff_t)(left.count - 1) * left.from_step + run - how->window;
  uint8_t *to = left.to + left.count * run - 16;
  const uint8x16_t index = vld1q_u8(how->at_end);
  vst1q_u8(to, look_up(from, index, how->window));
}

static void copy_short(rest left, size_t run) {
  if (run >= 8)
    copy_8(left, run);
  else if (run >= 4)
    copy_4(left, run);
  else if (run >= 2)
    copy_2(left, run);
  else
    copy_1(left, run);
}

static void gather_row(rest left, size_t run, const ed_gather *how, bool is_whole) {
  left = how->window == 32 ? gather(left, run, how, 32) : gather(left, run, how, 64);
  if (!left.count) return;
  if (!is_whole) {
    copy_short(left, run);
    return;
  }
  gather_end(left, run, how);
  // Runs of which a byte is before the last 16.
  if (left.count * run <= 16) return;
  left.count = (left.count * run - 16 + run - 1) / run;
  copy_short(left, run);
}

void ed_copy_runs_neon(const ed_box *box, uint8_t *to, const uint8_t *from, size_t count) {
  size_t run = box->run;
  int last = box->rank - 1;
  rest left = {to, from, count, box->to[last], box->from[last]};
  if (box->gather.at_once)
    gather_row(left, run, &box->gather, count == (size_t)box->dims[last]);
  else if (run > 8 && run < 16 && left.to_step == (ptrdiff_t)run && left.from_step >= (ptrdiff_t)run)
    copy_over(left, run);
  else if (run < 16)
    copy_short(left, run);
  else if (run == 16 && left.from_step == 16)
    spread_16(left);
  else if (run == 16 && left.to_step == 16)
    collect_16(left);
  else if (run <= 32)
    copy_16(left, run);
  else if (run <= 48)
    copy_vectors(left, run, 3);
  else if (run < 64)
    copy_vectors(left, run, 4);
  else if (run == 64)
    copy_blocks(left, 1);
  else if (run == 128)
    copy_blocks(left, 2);
  else if (run < LARGE)
    copy_long(left, run);
  else
    ed_copy_runs_scalar(box, to, from, count);
}
