// SPDX-License-Identifier: Apache-2.0
// TFLite_Detection_PostProcess: boxes decoded from anchors, and the best of them that do not overlap.
//
// The stock kernel decodes every box and sorts every score. Here candidates come off a heap, best first, and a box is
// decoded when its turn comes; with suppression by class, a class shows only what beats the worst detection so far.
// Both give the same detections in the same order: one thread of the stock kernel, whose order of equal scores of
// several classes differs from run to run on several threads.
//
// Rows of the outputs without a detection are zero; the stock kernel leaves them as they are with fast suppression. A
// NaN among scores, which makes the stock kernel read outside of its row, takes its box (fast) or itself (by class)
// out.
#ifndef ED_DETECTION_H
#define ED_DETECTION_H

#include "kernel.h"
#include "ranking.h"

enum { ED_DETECTION_LANES = 4 };  // classes that are looked at together

typedef struct {
  size_t boxes, box_values, classes, row, offset;  // `row` scores a box, from `offset` on those of the classes
  size_t most, most_of_class;                      // detections
  size_t rows, step, shown;                        // of the outputs; rows for a detection, and those that are used
  float score_threshold, overlap_threshold;
  double scales[4];  // y, x, height, width
  bool by_class;
  TfLiteType box_type, score_type;
  float box_scale, anchor_scale;
  int32_t box_zero, anchor_zero;
  size_t tail;  // scores from here on, of bytes, are made reals in another way
  float real[256], real_in_tail[256];
} ed_detection;

typedef struct {
  float ymin, xmin, ymax, xmax;
} ed_box;

typedef struct {
  float score;
  uint32_t box, class_index;
} ed_found;

// What a run writes to, in its scratch memory.
typedef struct {
  uint64_t *ranks;  // `boxes` for each class that is looked at
  ed_box *boxes;
  ed_found *best;
  uint64_t *order;  // of the classes of a box
  uint32_t *taken;
} ed_workspace;

// What looks through all scores, the part that takes time: in a scalar and in a NEON file.
typedef struct {
  // Writes the rank of every box whose best score is not below the threshold; gives how many.
  size_t (*best)(const ed_detection *detection, const void *scores, uint64_t *ranks);
  // Of classes first..first + ED_DETECTION_LANES - 1, those there are: writes the rank of every box whose score is not
  // below `least`, each class to an array of its own, `boxes` apart, and how many.
  void (*of_classes)(const ed_detection *detection, const void *scores, size_t first, float least, uint64_t *ranks,
                     size_t *counts);
} ed_scan;

static inline size_t ed_detection_ranks(const ed_detection *detection) {
  return detection->boxes * (detection->by_class ? ED_DETECTION_LANES : 1);
}

static inline size_t ed_detection_scratch(const ed_detection *detection) {
  const size_t for_each = sizeof(ed_box) + sizeof(ed_found) + sizeof(uint32_t);
  return (ed_detection_ranks(detection) + detection->classes) * sizeof(uint64_t) + detection->most * for_each;
}

static inline ed_workspace ed_detection_workspace(const ed_detection *detection, void *scratch) {
  ed_workspace space = {.ranks = scratch};
  space.order = space.ranks + ed_detection_ranks(detection);
  space.boxes = (ed_box *)(space.order + detection->classes);
  space.best = (ed_found *)(space.boxes + detection->most);
  space.taken = (uint32_t *)(space.best + detection->most);
  return space;
}

bool ed_detection_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes);
void ed_detection_run(const ed_detection *detection, const ed_scan *scan, const void *const *inputs,
                      void *const *outputs, void *scratch);

// A score by its place among all.
static inline float ed_detection_score(const ed_detection *detection, const void *scores, size_t at) {
  if (detection->score_type == kTfLiteFloat32) return ((const float *)scores)[at];
  uint8_t value = ((const uint8_t *)scores)[at];
  return (at < detection->tail ? detection->real : detection->real_in_tail)[value];
}

// Appends a box that has a score not below `least`.
static inline size_t ed_detection_add(uint64_t *ranks, size_t count, float score, float least, size_t box) {
  if (!(score >= least)) return count;
  ranks[count] = ed_rank(ed_order_of_float(score), (uint32_t)box);
  return count + 1;
}

#endif
