// SPDX-License-Identifier: Apache-2.0
// Random numbers that are the same everywhere, and the choices that cases are made of.
#ifndef ED_RANDOM_H
#define ED_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

#include "../../src/kernels/kernel.h"

// With `typical` set, choices are not random: shapes are `dims`, types `type`, and of alternatives it is the first.
typedef struct {
  uint64_t state;
  bool typical;
  TfLiteType type;
  int rank;
  int32_t dims[ED_MAX_RANK];
} ed_random;

uint64_t ed_next(ed_random *random);
// From low to high, both included; low if it is typical.
int ed_pick(ed_random *random, int low, int high);
// Never if it is typical.
bool ed_chance(ed_random *random, int percent);
TfLiteType ed_pick_type(ed_random *random, int count, const TfLiteType *types);
// A shape of that many dimensions, often with sizes of 1, of at most `elements`; gives the rank.
int ed_pick_shape(ed_random *random, int rank_low, int rank_high, int elements, int32_t *dims);
// Nice ones, powers of two and any, from tiny to huge.
float ed_pick_scale(ed_random *random);
// Near `scale`, now and then far from it.
float ed_pick_scale_near(ed_random *random, float scale);
int32_t ed_pick_zero_point(ed_random *random, TfLiteType type);

#endif
