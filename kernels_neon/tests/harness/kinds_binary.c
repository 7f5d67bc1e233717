// SPDX-License-Identifier: Apache-2.0
// Ops of two inputs, of one shape or repeated.
#include "../../src/tflite/options.h"
#include "case.h"

static const TfLiteType kBytes[] = {kTfLiteInt8, kTfLiteUInt8};

// The second input has the first one's shape, or one value for each channel, or one.
static int second_shape(ed_random *random, int rank, const int32_t *dims, int32_t *second) {
  int kind = random->typical ? 0 : ed_pick(random, 0, 3);
  for (int i = 0; i < rank; i++) second[i] = kind == 3 || (kind == 2 && i + 1 < rank) ? 1 : dims[i];
  return rank;
}

static TfLiteType operands(ed_random *random, ed_case *made, int types) {
  int32_t dims[ED_MAX_RANK], second[ED_MAX_RANK];
  int rank = ed_pick_shape(random, 1, 4, 4000, dims), rank_2 = second_shape(random, rank, dims, second);
  TfLiteType type = ed_pick_type(random, types, kBytes);
  ed_tensor *a = ed_add_input(made, type, rank, dims), *b = ed_add_input(made, type, rank_2, second);
  ed_quantise_any(made, random, a);
  float scale = ed_pick_scale_near(random, a->scale);
  ed_quantise(made, b, scale, ed_pick_zero_point(random, type));
  return type;
}

static void squared_difference(const ed_kind *kind, ed_random *random, ed_case *made) {
  (void)kind;
  TfLiteType type = operands(random, made, 1);
  ed_tensor *a = &made->inputs[0], *to = ed_add_output(made, type, a->rank, a->dims);
  float scale = ed_pick_scale_near(random, a->scale * a->scale * 60), larger = made->inputs[1].scale;
  if (larger < a->scale) larger = a->scale;
  // The runtime ends the process if the square, 14 bits up, is finer than the output.
  if (scale * 4000 < larger * larger) scale = larger * larger;
  ed_quantise(made, to, scale, ed_pick_zero_point(random, type));
}

static void comparison(const ed_kind *kind, ed_random *random, ed_case *made) {
  (void)kind;
  operands(random, made, 2);
  for (int i = 0; i < 2; i++) {  // the runtime ends the process for scales from 1 on
    ed_tensor *input = &made->inputs[i];
    while (input->scale >= 1) ed_quantise(made, input, input->scale / 8, input->zero_point);
  }
  ed_add_output(made, kTfLiteBool, made->inputs[0].rank, made->inputs[0].dims);
}

// Slopes for each channel (1, 1, C), constant as a rule, or one.
static void prelu(const ed_kind *kind, ed_random *random, ed_case *made) {
  (void)kind;
  int32_t dims[ED_MAX_RANK], slopes[] = {1, 1, 1};
  int rank = ed_pick_shape(random, 4, 4, 4000, dims);
  TfLiteType type = ed_pick_type(random, 2, kBytes);
  slopes[2] = ed_chance(random, 15) ? 1 : dims[3];
  ed_tensor *from = ed_add_input(made, type, rank, dims);
  ed_quantise_any(made, random, from);
  ed_tensor *alpha = ed_add_input(made, type, 3, slopes);
  float alpha_scale = ed_pick_scale(random);
  ed_quantise(made, alpha, alpha_scale, ed_pick_zero_point(random, type));
  if (random->typical || ed_chance(random, 80)) ed_fill_constant(made, random);
  ed_tensor *to = ed_add_output(made, type, rank, dims);
  float scale = ed_pick_scale_near(random, from->scale);
  ed_quantise(made, to, scale, ed_pick_zero_point(random, type));
}

const ed_kind ed_kinds_binary[] = {
    {"SQUARED_DIFFERENCE", kOpSquaredDifference, squared_difference},
    {"PRELU", kOpPrelu, prelu},
    {"LESS", kOpLess, comparison},
    {"LESS_EQUAL", kOpLessEqual, comparison},
    {"GREATER", kOpGreater, comparison},
    {"GREATER_EQUAL", kOpGreaterEqual, comparison},
    {"EQUAL", kOpEqual, comparison},
    {"NOT_EQUAL", kOpNotEqual, comparison},
    {0},
};
