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

const ed_kind ed_kinds_rows[] = {
    {"SOFTMAX", kOpSoftmax, softmax},
    {"LOG_SOFTMAX", kOpLogSoftmax, log_softmax},
    {"L2_NORMALIZATION", kOpL2Normalization, l2_normalization},
    {0},
};
