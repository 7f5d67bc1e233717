// SPDX-License-Identifier: Apache-2.0
#include "random.h"

#include <math.h>
#include <string.h>

// splitmix64
uint64_t ed_next(ed_random *random) {
  uint64_t z = random->state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

int ed_pick(ed_random *random, int low, int high) {
  if (random->typical || high <= low) return low;
  return low + (int)(ed_next(random) % (uint64_t)(high - low + 1));
}

bool ed_chance(ed_random *random, int percent) {
  return !random->typical && (int)(ed_next(random) % 100) < percent;
}

TfLiteType ed_pick_type(ed_random *random, int count, const TfLiteType *types) {
  return random->typical ? random->type : types[ed_pick(random, 0, count - 1)];
}

int ed_pick_shape(ed_random *random, int rank_low, int rank_high, int elements, int32_t *dims) {
  if (random->typical) {
    memcpy(dims, random->dims, sizeof random->dims);
    return random->rank;
  }
  int rank = ed_pick(random, rank_low, rank_high);
  // The last dimension first: rows are long more often than images are high.
  for (int i = rank - 1; i >= 0; i--) {
    int most = elements < 1 ? 1 : elements;
    int size = ed_chance(random, 25) ? 1 : ed_pick(random, 1, ed_chance(random, 50) ? 8 : i == rank - 1 ? 300 : 40);
    dims[i] = size < most ? size : most;
    elements /= dims[i];
  }
  return rank;
}

// 1 to 2, times a power of two. Numbers are drawn in statements of their own: compilers order arguments as they like.
static float any_scale(ed_random *random, float unit, int low, int high) {
  float mantissa = 1 + (float)ed_pick(random, 0, 1 << 20) / (1 << 20);
  return ldexpf(unit * mantissa, ed_pick(random, low, high));
}

float ed_pick_scale(ed_random *random) {
  if (random->typical) return 0.05f;
  int kind = ed_pick(random, 0, 9);
  if (kind < 3) return ldexpf(1, ed_pick(random, -9, 2));
  if (kind < 5) return (float)ed_pick(random, 1, 200) / 1000;
  return kind < 9 ? any_scale(random, 1, -9, 1) : any_scale(random, 1, -20, 10);
}

float ed_pick_scale_near(ed_random *random, float scale) {
  if (random->typical) return scale * 0.8f;
  if (ed_chance(random, 10)) return ed_pick_scale(random);
  return ed_chance(random, 20) ? scale : any_scale(random, scale, -4, 3);
}

int32_t ed_pick_zero_point(ed_random *random, TfLiteType type) {
  int least = type == kTfLiteUInt8 ? 0 : -128;
  if (random->typical) return least + 120;
  if (ed_chance(random, 20)) return ed_chance(random, 50) ? least : least + 255;
  return ed_chance(random, 20) ? 0 : ed_pick(random, least, least + 255);
}
