// SPDX-License-Identifier: Apache-2.0
// Ops that only move elements.
#include <string.h>

#include "../../src/tflite/options.h"
#include "case.h"

static const TfLiteType kTypes[] = {kTfLiteInt8,  kTfLiteInt8,    kTfLiteUInt8, kTfLiteInt16,
                                    kTfLiteInt32, kTfLiteFloat32, kTfLiteInt64, kTfLiteBool};

static TfLiteType any_type(ed_random *random, int count) {
  return ed_pick_type(random, count, kTypes);
}

// All operands of such an op have one scale.
static void quantise_alike(ed_case *made, ed_random *random) {
  TfLiteType type = made->outputs[0].type;
  if (type != kTfLiteInt8 && type != kTfLiteUInt8) return;
  float scale = ed_pick_scale(random);
  int32_t zero_point = ed_pick_zero_point(random, type);
  for (int i = 0; i < made->op.inputs_count; i++) {
    if (made->inputs[i].type == type) ed_quantise(made, &made->inputs[i], scale, zero_point);
  }
  for (int i = 0; i < made->op.outputs_count; i++) ed_quantise(made, &made->outputs[i], scale, zero_point);
}

// --- STRIDED_SLICE ----------

// One dimension: gives how many elements are taken. What the masks say is drawn into `begin` and `end` too, where it
// must not matter.
static int32_t range(ed_random *random, int32_t size, bool is_shrunk, int32_t *begin, int32_t *end, int32_t *stride,
                     int *begin_mask, int *end_mask, int bit) {
  if (is_shrunk) {
    *begin = ed_pick(random, -size, size - 1);
    *end = *begin + 1;
    *stride = 1;
    return 1;
  }
  bool is_forward = ed_chance(random, 75);
  int32_t first = ed_pick(random, 0, size - 1), last = ed_pick(random, 0, size - 1);
  if ((first > last) == is_forward) {
    int32_t other = first;
    first = last;
    last = other;
  }
  *stride = ed_pick(random, 1, ed_chance(random, 20) ? 9 : 3) * (is_forward ? 1 : -1);
  if (ed_chance(random, 30)) {
    *begin_mask |= 1 << bit;
    first = is_forward ? 0 : size - 1;
  }
  *begin = ed_chance(random, 30) ? first - size : first;
  *end = is_forward ? last + 1 : last - 1;
  if (is_forward && *end < size && ed_chance(random, 30)) *end -= size;
  if (!is_forward && *end < 0) *end = -size - 1;
  if (!is_forward && *end >= 0 && ed_chance(random, 30)) *end -= size;
  if (ed_chance(random, 30)) {
    *end_mask |= 1 << bit;
    last = is_forward ? size - 1 : 0;
  } else if (is_forward && *end > 0 && last == size - 1 && ed_chance(random, 30)) {
    *end += 5;  // beyond the end
  }
  int32_t span = is_forward ? last - first : first - last, step = is_forward ? *stride : -*stride;
  return span / step + 1;
}

static void strided_slice(const ed_kind *kind, ed_random *random, ed_case *made) {
  (void)kind;
  int32_t dims[ED_MAX_RANK], begin[ED_MAX_RANK] = {0}, end[ED_MAX_RANK], stride[ED_MAX_RANK], out[ED_MAX_RANK];
  int rank = ed_pick_shape(random, 1, 5, 20000, dims), out_rank = 0;
  TfLiteStridedSliceParams params = {0};
  TfLiteType type = any_type(random, 8);
  if (random->typical) {  // every second row and column, as before the first layer of some detectors
    for (int i = 0; i < rank; i++) {
      stride[i] = i == 1 || i == 2 ? 2 : 1;
      end[i] = dims[i] *= stride[i];
      out[out_rank++] = dims[i] / stride[i];
    }
  } else {
    for (int i = 0; i < rank; i++) {
      bool is_shrunk = ed_chance(random, 10);
      params.shrink_axis_mask |= is_shrunk ? 1 << i : 0;
      int32_t taken =
          range(random, dims[i], is_shrunk, &begin[i], &end[i], &stride[i], &params.begin_mask, &params.end_mask, i);
      if (!is_shrunk) out[out_rank++] = taken;
    }
  }
  ed_add_input(made, type, rank, dims);
  ed_add_constant(made, rank, begin);
  ed_add_constant(made, rank, end);
  ed_add_constant(made, rank, stride);
  ed_add_output(made, type, out_rank, out);
  quantise_alike(made, random);
  memcpy(made->params, &params, sizeof params);
  ED_OPTIONS(made, "{\"begin_mask\": %d, \"end_mask\": %d, \"shrink_axis_mask\": %d}", params.begin_mask,
             params.end_mask, params.shrink_axis_mask);
}

// --- one tensor and its parts ----------

enum { MOST_PARTS = 12 };

// Sizes of parts along an axis, all the same or not; gives how many.
static int any_parts(ed_random *random, bool is_equal, int32_t *sizes) {
  int count = random->typical ? 6 : ed_pick(random, 1, MOST_PARTS);
  int32_t size = ed_pick(random, 1, ed_chance(random, 30) ? 40 : 6);
  for (int i = 0; i < count; i++) sizes[i] = is_equal ? size : ed_pick(random, 1, 2 * size);
  return count;
}

static int any_axis(ed_random *random, int rank) {
  return random->typical ? rank - 1 : ed_pick(random, 0, rank - 1);
}

static int written_axis(ed_random *random, int axis, int rank) {
  return ed_chance(random, 30) ? axis - rank : axis;
}

static void concatenation(const ed_kind *kind, ed_random *random, ed_case *made) {
  (void)kind;
  int32_t dims[ED_MAX_RANK], sizes[MOST_PARTS], sum = 0;
  int rank = ed_pick_shape(random, 1, 4, 1500, dims), axis = any_axis(random, rank);
  int count = any_parts(random, false, sizes);
  TfLiteType type = any_type(random, 7);
  for (int i = 0; i < count; i++) {
    sum += dims[axis] = random->typical ? random->dims[axis] / count : sizes[i];
    ed_add_input(made, type, rank, dims);
  }
  dims[axis] = sum;
  ed_add_output(made, type, rank, dims);
  quantise_alike(made, random);
  int written = written_axis(random, axis, rank);
  *(TfLiteConcatenationParams *)made->params = (TfLiteConcatenationParams){.axis = written};
  ED_OPTIONS(made, "{\"axis\": %d}", written);
}

static void split(const ed_kind *kind, ed_random *random, ed_case *made) {
  int32_t dims[ED_MAX_RANK], sizes[MOST_PARTS], sum = 0;
  bool is_equal = kind->builtin == kOpSplit;
  int rank = ed_pick_shape(random, 1, 4, 1500, dims), axis = any_axis(random, rank);
  int count = any_parts(random, is_equal, sizes);
  static const TfLiteType types[] = {kTfLiteInt8,  kTfLiteUInt8,   kTfLiteInt16,
                                     kTfLiteInt32, kTfLiteFloat32, kTfLiteInt64};
  TfLiteType type = ed_pick_type(random, is_equal ? 5 : 6, types);
  if (random->typical) count = 4;
  for (int i = 0; i < count; i++) sum += sizes[i] = random->typical ? random->dims[axis] / count : sizes[i];
  dims[axis] = sum;
  int32_t written = written_axis(random, axis, rank);
  if (is_equal) {
    ed_add_constant(made, 1, &written);
    made->inputs[0].rank = 0;
    ed_add_input(made, type, rank, dims);
  } else {
    ed_add_input(made, type, rank, dims);
    ed_add_constant(made, count, sizes);
    ed_add_constant(made, 1, &written);
    made->inputs[2].rank = 0;
  }
  for (int i = 0; i < count; i++) {
    dims[axis] = sizes[i];
    ed_add_output(made, type, rank, dims);
  }
  quantise_alike(made, random);
  *(TfLiteSplitParams *)made->params = (TfLiteSplitParams){count};
  ED_OPTIONS(made, "{\"num_splits\": %d}", count);
}

// The axis is new: it may be the last one of the result.
static int new_axis(ed_random *random, int rank, const int32_t *dims, int32_t size, int32_t *out) {
  int axis = random->typical ? rank : ed_pick(random, 0, rank);
  for (int i = 0; i <= rank; i++) out[i] = i == axis ? size : dims[i - (i > axis)];
  return axis;
}

static void pack(const ed_kind *kind, ed_random *random, ed_case *made) {
  (void)kind;
  int32_t dims[ED_MAX_RANK], out[ED_MAX_RANK];
  int rank = ed_pick_shape(random, 0, 4, 1500, dims), count = random->typical ? 4 : ed_pick(random, 1, MOST_PARTS);
  TfLiteType type = any_type(random, 7);
  int axis = new_axis(random, rank, dims, count, out);
  for (int i = 0; i < count; i++) ed_add_input(made, type, rank, dims);
  ed_add_output(made, type, rank + 1, out);
  quantise_alike(made, random);
  int written = written_axis(random, axis, rank + 1);
  *(TfLitePackParams *)made->params = (TfLitePackParams){count, written};
  ED_OPTIONS(made, "{\"values_count\": %d, \"axis\": %d}", count, written);
}

static void unpack(const ed_kind *kind, ed_random *random, ed_case *made) {
  (void)kind;
  int32_t dims[ED_MAX_RANK], from[ED_MAX_RANK];
  int rank = ed_pick_shape(random, 0, 3, 1500, dims), count = random->typical ? 4 : ed_pick(random, 1, MOST_PARTS);
  static const TfLiteType types[] = {kTfLiteInt8, kTfLiteUInt8, kTfLiteFloat32, kTfLiteInt32, kTfLiteBool};
  TfLiteType type = ed_pick_type(random, 5, types);
  int axis = new_axis(random, rank, dims, count, from);
  ed_add_input(made, type, rank + 1, from);
  for (int i = 0; i < count; i++) ed_add_output(made, type, rank, dims);
  quantise_alike(made, random);
  int written = written_axis(random, axis, rank + 1);
  *(TfLiteUnpackParams *)made->params = (TfLiteUnpackParams){count, written};
  ED_OPTIONS(made, "{\"num\": %d, \"axis\": %d}", count, written);
}

// --- space and batch ----------

static void blocks(const ed_kind *kind, ed_random *random, ed_case *made) {
  bool to_batch = kind->builtin == kOpSpaceToBatchNd;
  static const TfLiteType types[] = {kTfLiteInt8, kTfLiteUInt8, kTfLiteFloat32, kTfLiteInt32, kTfLiteInt64};
  TfLiteType type = ed_pick_type(random, 5, types);
  int spatial = random->typical ? 2 : ed_pick(random, 1, 2);
  int32_t block[2], edges[4], space[4], batch[4];
  int32_t product = 1;
  space[0] = random->typical ? 1 : ed_pick(random, 1, 3);
  for (int i = 0; i < spatial; i++) {
    block[i] = random->typical ? 2 : ed_pick(random, 1, 4);
    product *= block[i];
    for (int k = 0; k < 2; k++) edges[2 * i + k] = ed_chance(random, 60) ? ed_pick(random, 0, 3) : 0;
    int32_t whole = random->typical ? random->dims[1 + i] : block[i] * ed_pick(random, 1, 8);
    // Without its edges there must be something left.
    if (whole <= edges[2 * i] + edges[2 * i + 1]) edges[2 * i] = edges[2 * i + 1] = 0;
    space[1 + i] = whole - edges[2 * i] - edges[2 * i + 1];
    batch[1 + i] = whole / block[i];
  }
  space[1 + spatial] = batch[1 + spatial] = random->typical ? random->dims[3] : ed_pick(random, 1, 40);
  batch[0] = space[0] * product;
  ed_add_input(made, type, spatial + 2, to_batch ? space : batch);
  ed_add_constant(made, spatial, block);
  ed_add_constant(made, 2 * spatial, edges);
  ed_tensor *pairs = &made->inputs[2];
  pairs->rank = 2;
  pairs->dims[0] = spatial;
  pairs->dims[1] = 2;
  ed_add_output(made, type, spatial + 2, to_batch ? batch : space);
  quantise_alike(made, random);
}

const ed_kind ed_kinds_move[] = {
    {"STRIDED_SLICE", kOpStridedSlice, strided_slice},
    {"CONCATENATION", kOpConcatenation, concatenation},
    {"SPLIT", kOpSplit, split},
    {"SPLIT_V", kOpSplitV, split},
    {"PACK", kOpPack, pack},
    {"UNPACK", kOpUnpack, unpack},
    {"SPACE_TO_BATCH_ND", kOpSpaceToBatchNd, blocks},
    {"BATCH_TO_SPACE_ND", kOpBatchToSpaceNd, blocks},
    {0},
};
