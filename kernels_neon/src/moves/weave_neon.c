// SPDX-License-Identifier: Apache-2.0
// Runs of two to four tensors side by side, and taken apart again: NEON's loads and stores of structures.
#include "../kernels/neon.h"
#include "moves.h"

typedef void (*weave)(uint8_t *whole, uint8_t *const *parts, size_t count);

// SIMDe reads numbers where they are, which must be aligned for that.
#ifdef ED_SIMDE
#include <string.h>
#define LOAD(N, BITS, LANES, FROM)         \
  ({                                       \
    uint##BITS##_t aligned[N * LANES];     \
    memcpy(aligned, FROM, sizeof aligned); \
    vld##N##q_u##BITS(aligned);            \
  })
#else
#define LOAD(N, BITS, LANES, FROM) vld##N##q_u##BITS((const uint##BITS##_t *)(const void *)(FROM))
#endif

// LANES of N parts at a time; the last ones, of `count`, may be done twice. At least as many are wanted.
#define WEAVE(N, BITS, LANES)                                                                                  \
  static inline void join_some_##N##_##BITS(uint8_t *whole, const uint8_t *const *from, size_t i) {            \
    uint##BITS##x##LANES##x##N##_t all;                                                                        \
    for (int k = 0; k < N; k++)                                                                                \
      all.val[k] = vld1q_u##BITS((const uint##BITS##_t *)(const void *)(from[k] + i * (BITS / 8)));            \
    vst##N##q_u##BITS((uint##BITS##_t *)(void *)(whole + i * N * (BITS / 8)), all);                            \
  }                                                                                                            \
  static inline void part_some_##N##_##BITS(const uint8_t *whole, uint8_t *const *to, size_t i) {              \
    const uint##BITS##x##LANES##x##N##_t all = LOAD(N, BITS, LANES, whole + i * N * (BITS / 8));               \
    for (int k = 0; k < N; k++) vst1q_u##BITS((uint##BITS##_t *)(void *)(to[k] + i * (BITS / 8)), all.val[k]); \
  }                                                                                                            \
  static void join_##N##_##BITS(uint8_t *whole, uint8_t *const *parts, size_t count) {                         \
    const uint8_t *from[N];                                                                                    \
    for (int k = 0; k < N; k++) from[k] = parts[k];                                                            \
    size_t i = 0;                                                                                              \
    for (; i + LANES <= count; i += LANES) join_some_##N##_##BITS(whole, from, i);                             \
    if (i < count) join_some_##N##_##BITS(whole, from, count - LANES);                                         \
  }                                                                                                            \
  static void part_##N##_##BITS(uint8_t *whole, uint8_t *const *parts, size_t count) {                         \
    uint8_t *to[N];                                                                                            \
    for (int k = 0; k < N; k++) to[k] = parts[k];                                                              \
    size_t i = 0;                                                                                              \
    for (; i + LANES <= count; i += LANES) part_some_##N##_##BITS(whole, to, i);                               \
    if (i < count) part_some_##N##_##BITS(whole, to, count - LANES);                                           \
  }
#define WEAVES(N) WEAVE(N, 8, 16) WEAVE(N, 16, 8) WEAVE(N, 32, 4) WEAVE(N, 64, 2)
WEAVES(2)
WEAVES(3)
WEAVES(4)

#define NAMES(WAY, N) {WAY##_##N##_8, WAY##_##N##_16, WAY##_##N##_32, WAY##_##N##_64}
// By whether runs are joined, how many and how long.
static const weave kWeaves[2][3][4] = {{NAMES(part, 2), NAMES(part, 3), NAMES(part, 4)},
                                       {NAMES(join, 2), NAMES(join, 3), NAMES(join, 4)}};

void ed_moves_run_neon(const ed_moves *moves, const void *const *inputs, void *const *outputs, size_t begin,
                       size_t end) {
  const ed_box *first = moves->boxes;
  if (!moves->is_woven || (end - begin) * first->run < 16) {
    ed_moves_run(moves, inputs, outputs, begin, end, ed_copy_runs_neon);
    return;
  }
  const bool is_join = first->from[0] == (ptrdiff_t)first->run;
  uint8_t *parts[4], *whole = NULL;
  for (int i = 0; i < moves->count; i++) {
    const ed_box *box = &moves->boxes[i];
    uint8_t *from = (uint8_t *)(uintptr_t)inputs[box->input] + box->from_start + (ptrdiff_t)begin * box->from[0];
    uint8_t *to = (uint8_t *)outputs[box->output] + box->to_start + (ptrdiff_t)begin * box->to[0];
    parts[i] = is_join ? from : to;
    if (!i) whole = is_join ? to : from;
  }
  kWeaves[is_join][moves->count - 2][__builtin_ctzll(first->run)](whole, parts, end - begin);
}
