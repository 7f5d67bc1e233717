// SPDX-License-Identifier: Apache-2.0
// Ops on the rows of the last dimension.
#include "../../src/tflite/options.h"
#include "case.h"

static const TfLiteType kBytes[] = {kTfLiteInt8, kTfLiteUInt8};

// The runtime wants these scales of the outputs. Now and then there is one long row.
static void rows(ed_random *random, ed_case *made, float scale, int32_t zero_point_signed) {
  int32_t dims[ED_MAX_RANK];
  int rank = ed_pick_shape(random, 1, 4, 4000, dims);
  if (ed_chance(random, 10)) {
    for (int i = 0; i < rank - 1; i++) dims[i] = 1;
    dims[rank - 1] = ed_pick(random, 300, 6000);
  }
  TfLiteType type = ed_pick_type(random, 2, kBytes);
  ed_tensor *from = ed_add_input(made, type, rank, dims), *to = ed_add_output(made, type, rank, dims);
  ed_quantise_any(made, random, from);
  ed_quantise(made, to, scale, type == kTfLiteUInt8 ? zero_point_signed + 128 : zero_point_signed);
}

static void softmax(const ed_kind *kind, ed_random *random, ed_case *made) {
  (void)kind;
  rows(random, made, 1.0f / 256, -128);
  float beta = ed_chance(random, 70) ? 1 : random->typical ? 1 : (float)ed_pick(random, 1, 40) / 10;
  *(TfLiteSoftmaxParams *)made->params = (TfLiteSoftmaxParams){beta};
  ED_OPTIONS(made, "{\"beta\": %.9g}", (double)beta);
}

static void log_softmax(const ed_kind *kind, ed_random *random, ed_case *made) {
  (void)kind;
  rows(random, made, 16.0f / 256, 127);
}

static void l2_normalization(const ed_kind *kind, ed_random *random, ed_case *made) {
  (void)kind;
  rows(random, made, 1.0f / 128, 0);
  *(TfLiteL2NormParams *)made->params = (TfLiteL2NormParams){kTfLiteActNone};
}

// What a CONV_2D of 1x1 with one result makes of rows of probabilities; with one that is not, or has another result.
static void dfl(const ed_kind *kind, ed_random *random, ed_case *made) {
  (void)kind;
  static const int32_t bins[] = {16, 17, 8, 1};
  int32_t dims[ED_MAX_RANK], row[4] = {1, 1, 1, bins[ed_pick(random, 0, 3)]}, one[4];
  if (ed_chance(random, 30)) row[3] = ed_pick(random, 1, 300);
  ed_pick_shape(random, 4, 4, 4000, dims);
  if (!random->typical) dims[3] = row[3];
  row[3] = dims[3];
  for (int i = 0; i < 4; i++) one[i] = i < 3 ? dims[i] : 1;
  ed_quantise_any(made, random, ed_add_input(made, kTfLiteInt8, 4, dims));
  ed_quantise(made, ed_add_host(made, "SOFTMAX", kOpSoftmax, kTfLiteInt8, 4, dims), 1.0f / 256, -128);
  float beta = ed_chance(random, 10) ? 0.5f : 1;
  *(TfLiteSoftmaxParams *)made->host_params = (TfLiteSoftmaxParams){beta};
  snprintf(made->host_options, sizeof made->host_options, "{\"beta\": %.9g}", (double)beta);

  float scale = ed_chance(random, 50) ? ed_pick_scale(random) : 15.0f / 127;
  ed_quantise(made, ed_add_input(made, kTfLiteInt8, 4, row), scale, 0);
  ed_fill_constant(made, random);
  ed_quantise(made, ed_add_input(made, kTfLiteInt32, 1, &(int32_t){1}), scale / 256, 0);
  int32_t *bias = ed_own(made, sizeof *bias);
  *bias = ed_chance(random, 50) ? ed_pick(random, -5000, 5000) : 0;
  made->inputs[2].data = made->fed[2] = bias;
  ed_tensor *to = ed_add_output(made, kTfLiteInt8, 4, one);
  float result_scale = ed_pick_scale_near(random, scale);
  ed_quantise(made, to, result_scale, ed_pick_zero_point(random, kTfLiteInt8));
  TfLiteFusedActivation activation = ed_chance(random, 10) ? kTfLiteActRelu : kTfLiteActNone;
  *(TfLiteConvParams *)made->params = (TfLiteConvParams){.padding = kTfLitePaddingValid,
                                                         .stride_width = 1,
                                                         .stride_height = 1,
                                                         .activation = activation,
                                                         .dilation_width_factor = 1,
                                                         .dilation_height_factor = 1};
  ED_OPTIONS(made, "{\"padding\": \"VALID\", \"stride_w\": 1, \"stride_h\": 1, \"fused_activation_function\": \"%s\"}",
             activation ? "RELU" : "NONE");
}

const ed_kind ed_kinds_rows[] = {
    {"SOFTMAX", kOpSoftmax, softmax},
    {"LOG_SOFTMAX", kOpLogSoftmax, log_softmax},
    {"L2_NORMALIZATION", kOpL2Normalization, l2_normalization},
    {"CONV_2D", kOpConv2d, dfl},
    {0},
};
