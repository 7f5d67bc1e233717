// SPDX-License-Identifier: Apache-2.0
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "detection.h"
#include "expect.h"
#include "flex.h"
#include "reject.h"

typedef struct {
  const ed_op *op;
  bool is_map, is_number;  // so far
} options;

static double number(options *from, const char *key, double otherwise) {
  ed_flex_value value;
  from->is_map &= ed_flex_find(from->op->params, from->op->params_bytes, key, &value);
  from->is_number &= value.kind != ED_FLEX_OTHER;
  return value.kind == ED_FLEX_NULL ? otherwise : value.real;
}

static bool whole(double value, double low, double high) {
  return value >= low && value <= high && floor(value) == value;
}

static bool read_options(const ed_op *op, ed_detection *to, char *reason, size_t reason_bytes) {
  options from = {op, op->params != NULL, true};
  if (!from.is_map) return ed_reject(reason, reason_bytes, "expected options");
  double most = number(&from, "max_detections", 0), places = number(&from, "max_classes_per_detection", 0);
  double classes = number(&from, "num_classes", 0), of_class = number(&from, "detections_per_class", 100);
  to->by_class = number(&from, "use_regular_nms", 0) != 0;
  to->score_threshold = (float)number(&from, "nms_score_threshold", 0);
  to->overlap_threshold = (float)number(&from, "nms_iou_threshold", 0);
  const char *const scales[4] = {"y_scale", "x_scale", "h_scale", "w_scale"};
  for (int i = 0; i < 4; i++) to->scales[i] = (double)(float)number(&from, scales[i], 0);
  if (!from.is_map || !from.is_number) return ed_reject(reason, reason_bytes, "expected a map of numbers as options");
  if (!whole(most, 1, INT16_MAX) || !whole(places, 1, INT16_MAX) || !whole(classes, 1, INT32_MAX) ||
      !whole(of_class, 1, INT32_MAX))
    return ed_reject(reason, reason_bytes, "expected at least one detection and one class, got %g of %g in %g, %g",
                     of_class, most, places, classes);
  if (!(to->overlap_threshold > 0 && to->overlap_threshold <= 1))
    return ed_reject(reason, reason_bytes, "expected an overlap of 0 to 1, got %g", (double)to->overlap_threshold);
  to->most = (size_t)most;
  to->rows = to->most * (size_t)places;
  to->step = to->by_class ? 1 : (size_t)places;
  to->classes = (size_t)classes;
  to->most_of_class = of_class < most ? (size_t)of_class : to->most;
  to->shown = to->step < to->classes ? to->step : to->classes;
  return true;
}

static bool shapes_fit(const ed_op *op, ed_detection *to, char *reason, size_t reason_bytes) {
  const ed_tensor *boxes = &op->inputs[0], *scores = &op->inputs[1], *anchors = &op->inputs[2];
  bool fits = boxes->rank == 3 && scores->rank == 3 && anchors->rank == 2;
  fits = fits && boxes->dims[0] == 1 && scores->dims[0] == 1 && boxes->dims[1] == scores->dims[1];
  fits = fits && boxes->dims[1] >= 1 && boxes->dims[2] >= 4;
  fits = fits && anchors->dims[0] >= boxes->dims[1] && anchors->dims[1] == 4;
  if (!fits) return ed_reject(reason, reason_bytes, "expected boxes (1, N, 4), scores (1, N, C) and anchors (N, 4)");
  to->boxes = (size_t)boxes->dims[1];
  to->box_values = (size_t)boxes->dims[2];
  to->row = (size_t)scores->dims[2];
  to->offset = to->row - to->classes;
  if (to->row < to->classes || to->offset > 1)
    return ed_reject(reason, reason_bytes, "expected scores of %zu classes, and of the background, got %zu",
                     to->classes, to->row);
  const size_t expected[4] = {to->rows * 4, to->rows, to->rows, 1};
  for (int i = 0; i < 4; i++) {
    if (!ed_expect_type(&op->outputs[i], kTfLiteFloat32, reason, reason_bytes)) return false;
    if (ed_count(&op->outputs[i]) != expected[i])
      return ed_reject(reason, reason_bytes, "expected %zu values of output %d", expected[i], i);
  }
  return true;
}

static bool types_fit(const ed_op *op, ed_detection *to, char *reason, size_t reason_bytes) {
  const ed_tensor *boxes = &op->inputs[0], *scores = &op->inputs[1], *anchors = &op->inputs[2];
  for (int i = 0; i < 3; i++) {
    const ed_tensor *input = &op->inputs[i];
    if (input->type == kTfLiteFloat32) continue;
    if (!ed_expect_type(input, kTfLiteUInt8, reason, reason_bytes)) return false;
    if (!(input->scale >= FLT_MIN * 0x1p24f && input->scale <= FLT_MAX * 0x1p-24f))
      return ed_reject(reason, reason_bytes, "expected one scale for each tensor, of usual size");
  }
  if (!ed_expect_type(anchors, boxes->type, reason, reason_bytes)) return false;
  to->box_type = boxes->type;
  to->box_scale = boxes->scale;
  to->box_zero = boxes->zero_point;
  to->anchor_scale = anchors->scale;
  to->anchor_zero = anchors->zero_point;
  to->score_type = scores->type;
  if (scores->type == kTfLiteFloat32) return true;
  // The stock runtime's own conversion on ARM: eight at a time with one rounding, what is left over in double.
  to->tail = to->boxes * to->row / 8 * 8;
  const float shift = (float)(-scores->zero_point * (double)scores->scale);
  for (int i = 0; i < 256; i++) {
    to->real[i] = fmaf((float)i, scores->scale, shift);
    to->real_in_tail[i] = (float)((double)scores->scale * (i - scores->zero_point));
  }
  return true;
}

// The stock kernel fails when a box has a negative side, which only an anchor can give it.
static bool anchors_fit(const ed_op *op, const ed_detection *to, char *reason, size_t reason_bytes) {
  const void *data = op->inputs[2].data;
  if (!data) return ed_reject(reason, reason_bytes, "expected constant anchors");
  for (size_t i = 0; i < 4 * to->boxes; i++) {
    if (i % 4 < 2) continue;
    float side = to->box_type == kTfLiteFloat32
                     ? ((const float *)data)[i]
                     : ((float)((const uint8_t *)data)[i] - (float)to->anchor_zero) * to->anchor_scale;
    if (!(side >= 0)) return ed_reject(reason, reason_bytes, "anchor %zu has a negative side", i / 4);
  }
  return true;
}

bool ed_detection_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes) {
  if (!ed_expect_operands(op, 3, 4, reason, reason_bytes)) return false;
  ed_detection *detection = calloc(1, sizeof *detection);
  if (!detection) return ed_reject(reason, reason_bytes, "out of memory");
  if (!read_options(op, detection, reason, reason_bytes) || !shapes_fit(op, detection, reason, reason_bytes) ||
      !types_fit(op, detection, reason, reason_bytes) || !anchors_fit(op, detection, reason, reason_bytes)) {
    free(detection);
    return false;
  }
  *job = (ed_job){.state = detection,
                  .units = 1,
                  .unit_bytes = detection->boxes * detection->row * (detection->score_type == kTfLiteFloat32 ? 4 : 1),
                  .scratch_bytes = ed_detection_scratch(detection)};
  return true;
}
