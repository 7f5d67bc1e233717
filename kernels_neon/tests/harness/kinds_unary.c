// SPDX-License-Identifier: Apache-2.0
// Ops of one input and one output of the same shape.
#include <math.h>

#include "../../src/tflite/options.h"
#include "case.h"

static const TfLiteType kBytes[] = {kTfLiteInt8, kTfLiteUInt8};
static const TfLiteType kBytesAndFloat[] = {kTfLiteInt8, kTfLiteInt8, kTfLiteUInt8, kTfLiteUInt8, kTfLiteFloat32};

static int any_shape(ed_random *random, int32_t *dims) {
  return ed_pick_shape(random, 0, 5, 4000, dims);
}

static void same_type(const ed_kind *kind, ed_random *random, ed_case *made) {
  (void)kind;
  int32_t dims[ED_MAX_RANK];
  int rank = any_shape(random, dims);
  TfLiteType type = ed_pick_type(random, 5, kBytesAndFloat);
  ed_tensor *from = ed_add_input(made, type, rank, dims), *to = ed_add_output(made, type, rank, dims);
  ed_quantise_any(made, random, from);
  if (!from->quantization) return;
  float scale = ed_pick_scale_near(random, from->scale);
  ed_quantise(made, to, scale, ed_pick_zero_point(random, type));
}

static void leaky_relu(const ed_kind *kind, ed_random *random, ed_case *made) {
  same_type(kind, random, made);
  float alpha = random->typical ? 0.1f : (float)ed_pick(random, -150, 150) / 100;
  *(TfLiteLeakyReluParams *)made->params = (TfLiteLeakyReluParams){alpha};
  ED_OPTIONS(made, "{\"alpha\": %.9g}", (double)alpha);
}

// Of a shape and type each; QUANTIZE of bytes to bytes is often what flips the sign only.
static void quantize(const ed_kind *kind, ed_random *random, ed_case *made) {
  (void)kind;
  int32_t dims[ED_MAX_RANK];
  int rank = any_shape(random, dims);
  TfLiteType type = ed_pick_type(random, 5, kBytesAndFloat);
  TfLiteType result = kBytes[random->typical ? type == kTfLiteInt8 : ed_pick(random, 0, 1)];
  ed_tensor *from = ed_add_input(made, type, rank, dims), *to = ed_add_output(made, result, rank, dims);
  ed_quantise_any(made, random, from);
  float scale = from->quantization ? ed_pick_scale_near(random, from->scale) : ed_pick_scale(random);
  ed_quantise(made, to, scale, ed_pick_zero_point(random, result));
  if (from->quantization && type != result && (random->typical || ed_chance(random, 60)))
    ed_quantise(made, to, from->scale, from->zero_point + (type == kTfLiteUInt8 ? -128 : 128));
}

static void dequantize(const ed_kind *kind, ed_random *random, ed_case *made) {
  (void)kind;
  int32_t dims[ED_MAX_RANK];
  int rank = any_shape(random, dims);
  TfLiteType type = ed_pick_type(random, 2, kBytes);
  ed_quantise_any(made, random, ed_add_input(made, type, rank, dims));
  ed_add_output(made, kTfLiteFloat32, rank, dims);
}

const ed_kind ed_kinds_unary[] = {
    {"RELU", kOpRelu, same_type},
    {"RELU6", kOpRelu6, same_type},
    {"RELU_N1_TO_1", kOpReluN1To1, same_type},
    {"ABS", kOpAbs, same_type},
    {"RSQRT", kOpRsqrt, same_type},
    {"EXP", kOpExp, same_type},
    {"HARD_SWISH", kOpHardSwish, same_type},
    {"LEAKY_RELU", kOpLeakyRelu, leaky_relu},
    {"QUANTIZE", kOpQuantize, quantize},
    {"DEQUANTIZE", kOpDequantize, dequantize},
    {0},
};
