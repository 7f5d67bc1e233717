// SPDX-License-Identifier: Apache-2.0
// Numbers from a seed: splitmix64.
#ifndef ED_RANDOM_H
#define ED_RANDOM_H

#include <stdint.h>

static inline uint64_t next_random(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

static inline uint32_t below(uint64_t *state, uint32_t limit) {
  return (uint32_t)(next_random(state) >> 32) % limit;
}

#endif
