// SPDX-License-Identifier: Apache-2.0
// Images to and from blocks of channels.
#include <string.h>

#include "../../src/kernels/blocks.h"
#include "case.h"

typedef struct {
  TfLiteType from, to;
} types;

static const types kPairs[] = {
    {kTfLiteInt8, kTfLiteInt8},       {kTfLiteUInt8, kTfLiteInt8},    {kTfLiteInt8, kTfLiteUInt8},
    {kTfLiteUInt8, kTfLiteUInt8},     {kTfLiteFloat32, kTfLiteInt8},  {kTfLiteFloat32, kTfLiteUInt8},
    {kTfLiteInt8, kTfLiteFloat32},    {kTfLiteUInt8, kTfLiteFloat32}, {kTfLiteInt16, kTfLiteInt16},
    {kTfLiteFloat32, kTfLiteFloat32},
};

// Typical are what a network takes and gives: bytes copied, flipped or quantised inward; dequantised or flipped
// outward.
static types typical(TfLiteType type, bool is_inward) {
  if (type == kTfLiteInt8) return (types){type, is_inward ? kTfLiteInt8 : kTfLiteFloat32};
  return (types){type, type == kTfLiteInt16 ? type : kTfLiteInt8};
}

static void blocks(const ed_kind *kind, ed_random *random, ed_case *made) {
  bool is_inward = !strcmp(kind->name, ED_TO_BLOCKS);
  int32_t image[ED_MAX_RANK];
  ed_pick_shape(random, 4, 4, 4000, image);
  int32_t depth = ed_chance(random, 40) ? 8 : ed_chance(random, 20) ? ed_pick(random, 1, 20) : 16;
  int32_t there[] = {image[0], (image[3] + depth - 1) / depth, image[1], image[2], depth};
  types pair = random->typical ? typical(random->type, is_inward) : kPairs[ed_pick(random, 0, 9)];
  ed_tensor *from = ed_add_input(made, pair.from, is_inward ? 4 : 5, is_inward ? image : there);
  ed_tensor *to = ed_add_output(made, pair.to, is_inward ? 5 : 4, is_inward ? there : image);
  ed_quantise_any(made, random, from);
  ed_quantise_any(made, random, to);
  made->op.custom_name = kind->name;
  if (!from->quantization || !to->quantization) return;
  int32_t shift = pair.from == pair.to ? 0 : pair.from == kTfLiteUInt8 ? -128 : 128;
  ed_quantise(made, to, from->scale, from->zero_point + shift);
}

const ed_kind ed_kinds_blocks[] = {
    {ED_TO_BLOCKS, kTfLiteBuiltinCustom, blocks},
    {ED_FROM_BLOCKS, kTfLiteBuiltinCustom, blocks},
    {0},
};
