// SPDX-License-Identifier: Apache-2.0
// NON_MAX_SUPPRESSION_V4 and V5: the best boxes that do not overlap; with a sigma, scores decay by overlap instead.
//
// Which of several equal scores comes first follows from the stock runtime's heap (gnu_heap.h). A box that was selected
// returns to it, as in the stock kernel, and is suppressed by itself, unless its area is zero: then it is selected
// again and again.
#ifndef ED_NMS_H
#define ED_NMS_H

#include "kernel.h"

typedef struct {
  size_t boxes, most;
  bool has_scores;  // V5
  float overlap_threshold, score_threshold, sigma;
} ed_nms;

// Sides of boxes, each in an array of its own.
typedef struct {
  float *ymin, *ymax, *xmin, *xmax, *area;
} ed_sides;

typedef struct {
  float ymin, ymax, xmin, xmax, area;
} ed_side;

enum { ED_NMS_BLOCK = 16 };

// What takes time, in a scalar and in a NEON file.
typedef struct {
  // Writes which boxes have a score above the threshold, in order; gives how many.
  size_t (*above)(const float *scores, size_t count, float threshold, uint32_t *found);
  // Whether the overlap of the box with any of first..end - 1 reaches the threshold.
  bool (*reaches)(const ed_side *box, const ed_sides *kept, size_t first, size_t end, float threshold);
  // Writes the overlaps with first..end - 1, which are at most ED_NMS_BLOCK.
  void (*overlaps)(const ed_side *box, const ed_sides *kept, size_t first, size_t end, float *overlaps);
} ed_nms_loops;

bool ed_nms_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes);
void ed_nms_run(const ed_nms *nms, const ed_nms_loops *loops, const void *const *inputs, void *const *outputs,
                void *scratch);

static inline float ed_nms_larger(float a, float b) {
  return a < b ? b : a;
}
static inline float ed_nms_smaller(float a, float b) {
  return b < a ? b : a;
}

// Intersection over union.
static inline float ed_nms_overlap(const ed_side *box, const ed_sides *kept, size_t i) {
  if (box->area <= 0 || kept->area[i] <= 0) return 0;
  const float height = ed_nms_smaller(box->ymax, kept->ymax[i]) - ed_nms_larger(box->ymin, kept->ymin[i]);
  const float width = ed_nms_smaller(box->xmax, kept->xmax[i]) - ed_nms_larger(box->xmin, kept->xmin[i]);
  const float common = ed_nms_larger(height, 0) * ed_nms_larger(width, 0);
  const float together = box->area + kept->area[i] - common;
  return together == 0 ? 0 : common / together;
}

static inline bool ed_nms_reaches(const ed_side *box, const ed_sides *kept, size_t first, size_t end, float threshold) {
  for (size_t i = first; i < end; i++) {
    if (ed_nms_overlap(box, kept, i) >= threshold) return true;
  }
  return false;
}

#endif
