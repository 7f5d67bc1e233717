// SPDX-License-Identifier: Apache-2.0
// What comes after a detector's network: the largest values, and TFLite's own post-processing.
#include <math.h>
#include <string.h>

#include "../../src/tflite/options.h"
#include "../check.h"
#include "case.h"

static const TfLiteType kAny[] = {kTfLiteInt8, kTfLiteUInt8, kTfLiteFloat32};
static const TfLiteType kRealsAndBytes[] = {kTfLiteFloat32, kTfLiteFloat32, kTfLiteUInt8};

static void *room_for(ed_case *made, const ed_tensor *tensor) {
  return ed_own(made, ed_tensor_bytes(tensor));
}

// Both zeros, infinities and numbers without a full mantissa among others; no NaN, which has no place in any order.
static void fill_special(ed_random *random, const ed_tensor *tensor, float *memory) {
  static const float special[] = {0.0f, -0.0f, INFINITY, -INFINITY, 1e-40f, -1e-40f, 1, -1};
  for (size_t i = 0; i < ed_elements(tensor); i++) memory[i] = special[ed_next(random) >> 61];
}

// One far from the others, which differ in their last bits.
static void fill_close(ed_random *random, const ed_tensor *tensor, float *memory) {
  const size_t count = ed_elements(tensor);
  for (size_t i = 0; i < count; i++) memory[i] = 1 + (float)ed_pick(random, 0, 300) * 0x1p-23f;
  if (count) memory[ed_next(random) % count] = -1;
}

static void topk(const ed_kind *kind, ed_random *random, ed_case *made) {
  (void)kind;
  int32_t dims[ED_MAX_RANK];
  int rank = ed_pick_shape(random, 1, 4, 4000, dims);
  if (ed_chance(random, 25)) dims[(rank = 1) - 1] = ed_pick(random, 300, 3000);
  TfLiteType type = ed_pick_type(random, 3, kAny);
  ed_tensor *from = ed_add_input(made, type, rank, dims);
  ed_quantise_any(made, random, from);
  int32_t length = dims[rank - 1], k = length < 5 ? length : 5;
  // The typical case of more dimensions is one of more values.
  if (random->typical && rank > 2) k = rank > 3 ? (length + 7) / 8 : (length + 1) / 2;
  if (!random->typical && ed_chance(random, 70)) k = ed_pick(random, 1, length);
  ed_add_constant(made, 1, &k);
  dims[rank - 1] = k;
  ed_tensor *values = ed_add_output(made, type, rank, dims);
  if (from->quantization) ed_quantise(made, values, from->scale, from->zero_point);
  if (type == kTfLiteFloat32 && ed_chance(random, 40)) {
    made->fed[0] = room_for(made, from);
    (ed_chance(random, 75) ? fill_special : fill_close)(random, from, made->fed[0]);
  }
  ed_add_output(made, kTfLiteInt32, rank, dims);
}

// --- FlexBuffers ----------

enum { MOST_KEYS = 16, MOST_BYTES = 640 };

// A map of numbers, whose keys are to be added in order. `width` is that of its values and offsets in bytes: 4 or 8.
typedef struct {
  uint8_t bytes[MOST_BYTES], types[MOST_KEYS];
  size_t used, width, count, keys[MOST_KEYS];
  double reals[MOST_KEYS];
} flex;

static void put(flex *map, const void *value, size_t bytes) {
  CHECK(map->used + bytes <= MOST_BYTES);
  memcpy(map->bytes + map->used, value, bytes);
  map->used += bytes;
}

static void put_uint(flex *map, uint64_t value) {
  put(map, &value, map->width);  // little-endian machines only, as TFLite's
}

static void add(flex *map, const char *key, int type, double value) {
  CHECK(map->count < MOST_KEYS);
  map->keys[map->count] = map->used;
  put(map, key, strlen(key) + 1);
  map->types[map->count] = (uint8_t)(type << 2 | (map->width == 8 ? 3 : 2));
  map->reals[map->count++] = value;
}

enum { INT = 1, UINT = 2, REAL = 3, BOOL = 26 };

static void finish(flex *map) {
  put_uint(map, map->count);
  const size_t keys = map->used;
  for (size_t i = 0; i < map->count; i++) put_uint(map, map->used - map->keys[i]);
  put_uint(map, map->used - keys);
  put_uint(map, map->width);
  put_uint(map, map->count);
  const size_t values = map->used;
  for (size_t i = 0; i < map->count; i++) {
    const float single = (float)map->reals[i];
    if (map->types[i] >> 2 != REAL)
      put_uint(map, (uint64_t)map->reals[i]);
    else if (map->width == 4)
      put(map, &single, 4);
    else
      put(map, &map->reals[i], 8);
  }
  put(map, map->types, map->count);
  put_uint(map, map->used - values);
  put(map, (const uint8_t[]){9 << 2 | (map->width == 8 ? 3 : 2), (uint8_t)map->width}, 2);
}

// --- detection ----------

typedef struct {
  int most, most_of_class, places, classes;
  bool by_class;
  double threshold, overlap;
} detection;

static void detection_options(ed_random *random, ed_case *made, const detection *is) {
  flex map = {.width = ed_chance(random, 50) ? 8 : 4};
  if (!is->by_class || ed_chance(random, 80)) add(&map, "detections_per_class", INT, is->most_of_class);
  add(&map, "h_scale", REAL, 5);
  add(&map, "max_classes_per_detection", INT, is->places);
  add(&map, "max_detections", INT, is->most);
  add(&map, "nms_iou_threshold", REAL, is->overlap);
  add(&map, "nms_score_threshold", REAL, is->threshold);
  add(&map, "num_classes", ed_chance(random, 50) ? UINT : INT, is->classes);
  if (is->by_class || ed_chance(random, 50)) add(&map, "use_regular_nms", BOOL, is->by_class);
  add(&map, "w_scale", REAL, 5);
  add(&map, "x_scale", REAL, 10);
  if (ed_chance(random, 30))
    add(&map, "y_scale", INT, 10);
  else
    add(&map, "y_scale", REAL, 10);
  finish(&map);
  ed_custom_options(made, "TFLite_Detection_PostProcess", map.bytes, map.used);
}

static float unit(ed_random *random) {
  return (float)(ed_next(random) >> 40) * 0x1p-24f;
}

// Boxes and anchors that give usual boxes, many of the same place, some of no size.
static void fill_boxes(ed_random *random, const ed_tensor *boxes, void *encoded, const ed_tensor *anchors,
                       void *sides) {
  const size_t values = (size_t)boxes->dims[2];
  const bool clustered = ed_chance(random, 40), flat = ed_chance(random, 20);
  for (size_t i = 0; i < ed_elements(boxes); i++) {
    float value = (unit(random) - 0.5f) * (clustered ? 0.5f : 4.0f);
    if (boxes->type == kTfLiteFloat32)
      ((float *)encoded)[i] = value;
    else
      ((uint8_t *)encoded)[i] = (uint8_t)(i % values < 2 && clustered ? 100 : ed_next(random));
  }
  for (size_t i = 0; i < ed_elements(anchors); i++) {
    float value = clustered && i >= 4 && ed_chance(random, 70) ? 0.25f : unit(random);
    if (flat && i % 4 == 2 && ed_chance(random, 30)) value = 0;
    if (anchors->type == kTfLiteFloat32)
      ((float *)sides)[i] = value;
    else
      ((uint8_t *)sides)[i] = (uint8_t)(anchors->zero_point + (int)(value * (float)(255 - anchors->zero_point)));
  }
}

static void fill_scores(ed_random *random, const ed_tensor *scores, void *memory) {
  const int kind = ed_pick(random, 0, 4);
  for (size_t i = 0; i < ed_elements(scores); i++) {
    float value = unit(random);
    if (kind == 0) value = value * value * value * value;  // as of a trained network: few are high
    if (kind == 1) value = (float)(int)(value * 5) / 4;    // ties
    if (kind == 2) value = 0;
    if (scores->type == kTfLiteFloat32)
      ((float *)memory)[i] = value;
    else
      ((uint8_t *)memory)[i] = (uint8_t)(value * 255);
  }
}

static void detect(const ed_kind *kind, ed_random *random, ed_case *made) {
  (void)kind;
  static const double thresholds[] = {1e-8, 0.3, 0.5, 0.9, 0, 2};
  const int boxes = random->typical ? random->dims[0] : ed_pick(random, 1, ed_chance(random, 30) ? 6 : 300);
  const int row = random->typical ? random->dims[1] : ed_pick(random, 1, ed_chance(random, 50) ? 5 : 40);
  const int background = random->typical ? 1 : row > 1 && ed_chance(random, 60);
  detection is = {.most = random->typical ? 10 : ed_pick(random, 1, 30), .most_of_class = 100, .places = 1};
  if (!random->typical && ed_chance(random, 50)) is.most_of_class = ed_pick(random, 1, 6);
  if (ed_chance(random, 40)) is.places = ed_pick(random, 2, 5);
  is.classes = row - background;
  // The typical case of a third dimension is the one by class.
  is.by_class = random->typical ? random->rank > 2 : ed_chance(random, 50);
  is.threshold = thresholds[random->typical ? 0 : ed_pick(random, 0, 5)];
  is.overlap = random->typical ? 0.6 : 0.1 * ed_pick(random, 1, 10);
  detection_options(random, made, &is);

  const int values = random->typical || ed_chance(random, 70) ? 4 : ed_pick(random, 5, 7);
  const TfLiteType type = ed_pick_type(random, 3, kRealsAndBytes);
  ed_tensor *encoded = ed_add_input(made, type, 3, (const int32_t[]){1, boxes, values});
  if (type != kTfLiteFloat32) ed_quantise(made, encoded, 0.05f, ed_pick_zero_point(random, type));
  const TfLiteType score_type = random->typical ? type : ed_pick_type(random, 3, kRealsAndBytes);
  ed_tensor *scores = ed_add_input(made, score_type, 3, (const int32_t[]){1, boxes, row});
  if (score_type != kTfLiteFloat32) {
    float scale = random->typical || ed_chance(random, 50) ? 1.0f / 256 : ed_pick_scale(random);
    ed_quantise(made, scores, scale, random->typical || ed_chance(random, 50) ? 0 : ed_pick(random, 1, 20));
  }
  ed_tensor *anchors = ed_add_input(made, type, 2, (const int32_t[]){boxes, 4});
  if (type != kTfLiteFloat32) ed_quantise(made, anchors, 0.005f, ed_pick(random, 0, 3));
  for (int i = 0; i < 3; i++) made->fed[i] = room_for(made, &made->inputs[i]);
  fill_boxes(random, encoded, made->fed[0], anchors, made->fed[2]);
  fill_scores(random, scores, made->fed[1]);
  if (random->typical || !ed_chance(random, 5)) anchors->data = made->fed[2];
  const int32_t found = is.most * is.places;
  ed_add_output(made, kTfLiteFloat32, 3, (const int32_t[]){1, found, 4});
  ed_add_output(made, kTfLiteFloat32, 2, (const int32_t[]){1, found});
  ed_add_output(made, kTfLiteFloat32, 2, (const int32_t[]){1, found});
  ed_add_output(made, kTfLiteFloat32, 1, (const int32_t[]){1});
}

// --- suppression ----------

static void add_scalar(ed_case *made, TfLiteType type, const void *value) {
  ed_tensor *tensor = ed_add_input(made, type, 0, NULL);
  tensor->data = made->fed[tensor - made->inputs] = memcpy(ed_own(made, 4), value, 4);
}

// Corners in any order, many of the same place, some of no size.
static void fill_corners(ed_random *random, const ed_tensor *boxes, float *corners) {
  const bool clustered = random->typical || ed_chance(random, 50), flat = ed_chance(random, 30);
  for (int i = 0; i < boxes->dims[0]; i++) {
    const float y = unit(random) * (clustered ? 3 : 10), x = unit(random) * (clustered ? 3 : 10);
    const float height = unit(random), width = unit(random);
    const bool is_flat = flat && ed_chance(random, 20), is_turned = ed_chance(random, 20);
    memcpy(corners + 4 * i, (const float[]){y, x, is_flat ? y : is_turned ? y - height : y + height, x + width}, 16);
  }
}

static void suppress(const ed_kind *kind, ed_random *random, ed_case *made) {
  static const float thresholds[] = {0.0f, 0.3f, -1.0f, 0.9f}, overlaps[] = {0.5f, 0.3f, 0.1f, 0.9f, 0.0f, 1.0f, 1.5f};
  const int32_t boxes = random->typical ? random->dims[0] : ed_pick(random, 1, ed_chance(random, 50) ? 12 : 400);
  int32_t most = random->typical ? 100 : ed_pick(random, 1, ed_chance(random, 50) ? 10 : 150);
  const float threshold = thresholds[ed_pick(random, 0, 3)], overlap = overlaps[ed_pick(random, 0, 6)];
  ed_add_input(made, kTfLiteFloat32, 2, (const int32_t[]){boxes, 4});
  ed_add_input(made, kTfLiteFloat32, 1, &boxes);
  add_scalar(made, kTfLiteInt32, &most);
  add_scalar(made, kTfLiteFloat32, &overlap);
  add_scalar(made, kTfLiteFloat32, &threshold);
  const float sigma = ed_chance(random, 30) ? 0 : 0.5f;
  if (kind->builtin == kOpNonMaxSuppressionV5) add_scalar(made, kTfLiteFloat32, &sigma);
  if (ed_chance(random, 3)) made->inputs[ed_pick(random, 3, 4)].data = NULL;
  for (int i = 0; i < 2; i++) made->fed[i] = room_for(made, &made->inputs[i]);
  fill_corners(random, &made->inputs[0], made->fed[0]);
  fill_scores(random, &made->inputs[1], made->fed[1]);
  ed_add_output(made, kTfLiteInt32, 1, &most);
  if (kind->builtin == kOpNonMaxSuppressionV5) ed_add_output(made, kTfLiteFloat32, 1, &most);
  ed_add_output(made, kTfLiteInt32, 0, NULL);
}

const ed_kind ed_kinds_tail[] = {
    {"NON_MAX_SUPPRESSION_V4", kOpNonMaxSuppressionV4, suppress},
    {"NON_MAX_SUPPRESSION_V5", kOpNonMaxSuppressionV5, suppress},
    {"TOPK_V2", kOpTopkV2, topk},
    {"CUSTOM:TFLite_Detection_PostProcess", kOpCustom, detect},
    {0},
};
