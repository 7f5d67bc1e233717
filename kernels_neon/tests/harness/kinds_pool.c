// SPDX-License-Identifier: Apache-2.0
// Pools of images.
#include <string.h>

#include "../../src/tflite/options.h"
#include "case.h"

static const TfLiteType kBytes[] = {kTfLiteInt8, kTfLiteUInt8};
static const char *const kActivations[] = {"NONE", "RELU", "RELU_N1_TO_1", "RELU6"};

static int32_t out_size(int32_t size, int filter, int stride, bool is_same) {
  return is_same ? (size + stride - 1) / stride : (size - filter + stride) / stride;
}

static void pool(const ed_kind *kind, ed_random *random, ed_case *made) {
  int32_t in[4], out[4];
  if (random->typical) {
    memcpy(in, random->dims, sizeof in);
  } else {
    in[0] = ed_pick(random, 1, 2);
    in[1] = ed_pick(random, 1, 14);
    in[2] = ed_pick(random, 1, 14);
    in[3] = ed_pick(random, 1, ed_chance(random, 50) ? 80 : 20);
  }
  bool is_tall = ed_chance(random, 5);  // windows of more rows than a 16-bit sum holds
  if (is_tall) {
    in[1] = ed_pick(random, 256, 400);
    in[2] = ed_pick(random, 1, 2);
  }
  bool is_max = kind->builtin == kOpMaxPool2d, is_same = random->typical ? is_max : ed_chance(random, 50);
  int filter[2], stride[2];
  for (int i = 0; i < 2; i++) {
    int most = is_same ? 15 : in[1 + i], least = is_tall && !is_same && !i ? 256 : 1;
    filter[i] = random->typical ? (is_max ? 5 : 2)
                                : ed_pick(random, least,
                                          ed_chance(random, 30) ? most
                                          : most < 5            ? most
                                                                : 5);
    stride[i] = random->typical ? (is_max ? 1 : 2) : ed_pick(random, 1, 3);
    out[1 + i] = out_size(in[1 + i], filter[i], stride[i], is_same);
  }
  out[0] = in[0];
  out[3] = in[3];
  TfLiteType type = ed_pick_type(random, 2, kBytes);
  int activation = ed_chance(random, 40) ? ed_pick(random, 0, 3) : 0;
  float scale = ed_pick_scale(random);
  int32_t zero_point = ed_pick_zero_point(random, type);
  ed_quantise(made, ed_add_input(made, type, 4, in), scale, zero_point);
  ed_quantise(made, ed_add_output(made, type, 4, out), scale, zero_point);
  *(TfLitePoolParams *)made->params = (TfLitePoolParams){
      .padding = is_same ? kTfLitePaddingSame : kTfLitePaddingValid,
      .stride_width = stride[1],
      .stride_height = stride[0],
      .filter_width = filter[1],
      .filter_height = filter[0],
      .activation = (TfLiteFusedActivation)activation,
  };
  ED_OPTIONS(made,
             "{\"padding\": \"%s\", \"stride_h\": %d, \"stride_w\": %d, \"filter_height\": %d, \"filter_width\": %d, "
             "\"fused_activation_function\": \"%s\"}",
             is_same ? "SAME" : "VALID", stride[0], stride[1], filter[0], filter[1], kActivations[activation]);
}

const ed_kind ed_kinds_pool[] = {
    {"AVERAGE_POOL_2D", kOpAveragePool2d, pool},
    {"MAX_POOL_2D", kOpMaxPool2d, pool},
    {0},
};
