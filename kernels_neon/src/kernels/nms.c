// SPDX-License-Identifier: Apache-2.0
#include "nms.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"
#include "gnu_heap.h"
#include "ranking.h"
#include "reject.h"

static bool is_scalar(const ed_tensor *tensor, TfLiteType type) {
  return tensor->rank == 0 && tensor->type == type && tensor->data;
}

bool ed_nms_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes) {
  const bool has_scores = op->inputs_count == 6;
  if (!has_scores && !ed_expect_operands(op, 5, 2, reason, reason_bytes)) return false;
  if (has_scores && !ed_expect_operands(op, 6, 3, reason, reason_bytes)) return false;
  const ed_tensor *boxes = &op->inputs[0], *scores = &op->inputs[1];
  if (!ed_expect_type(boxes, kTfLiteFloat32, reason, reason_bytes)) return false;
  if (!ed_expect_type(scores, kTfLiteFloat32, reason, reason_bytes)) return false;
  if (boxes->rank != 2 || boxes->dims[1] != 4 || scores->rank != 1 || scores->dims[0] != boxes->dims[0])
    return ed_reject(reason, reason_bytes, "expected boxes (N, 4) and N scores");
  bool fits = is_scalar(&op->inputs[2], kTfLiteInt32);
  for (int i = 3; i < op->inputs_count; i++) fits = fits && is_scalar(&op->inputs[i], kTfLiteFloat32);
  if (!fits) return ed_reject(reason, reason_bytes, "expected constants as the number of boxes and the thresholds");
  ed_nms is = {.boxes = (size_t)boxes->dims[0], .has_scores = has_scores};
  const int32_t most = *(const int32_t *)op->inputs[2].data;
  is.overlap_threshold = *(const float *)op->inputs[3].data;
  is.score_threshold = *(const float *)op->inputs[4].data;
  is.sigma = has_scores ? *(const float *)op->inputs[5].data : 0;
  if (most < 1 || is.sigma < 0)
    return ed_reject(reason, reason_bytes, "expected at least one box and no negative sigma, got %d and %g", most,
                     (double)is.sigma);
  is.most = (size_t)most;
  for (int i = 0; i < op->outputs_count; i++) {
    const TfLiteType type = has_scores && i == 1 ? kTfLiteFloat32 : kTfLiteInt32;
    if (!ed_expect_type(&op->outputs[i], type, reason, reason_bytes)) return false;
    if (ed_count(&op->outputs[i]) != (i + 1 < op->outputs_count ? is.most : 1))
      return ed_reject(reason, reason_bytes, "expected outputs of %d boxes", most);
  }
  ed_nms *nms = malloc(sizeof *nms);
  if (!nms) return ed_reject(reason, reason_bytes, "out of memory");
  *nms = is;
  const size_t for_each = sizeof(uint64_t) + 2 * sizeof(uint32_t) + sizeof(float);
  *job = (ed_job){.state = nms,
                  .units = 1,
                  .unit_bytes = is.boxes * 5 * sizeof(float),
                  .scratch_bytes = is.boxes * for_each + is.most * 5 * sizeof(float)};
  return true;
}

// --- suppression ----------

typedef struct {
  uint64_t *heap;
  uint32_t *begin, *found;  // by box: what it was compared with; who is above the threshold
  float *score;             // by box
  ed_sides kept;
} workspace;

static workspace workspace_in(const ed_nms *is, void *scratch) {
  workspace space = {.heap = scratch};
  space.begin = (uint32_t *)(space.heap + is->boxes);
  space.found = space.begin + is->boxes;
  space.score = (float *)(space.found + is->boxes);
  float *sides = space.score + is->boxes;
  float **const arrays[5] = {&space.kept.ymin, &space.kept.ymax, &space.kept.xmin, &space.kept.xmax, &space.kept.area};
  for (size_t i = 0; i < 5; i++) *arrays[i] = sides + i * is->most;
  return space;
}

static ed_side side_of(const float *corners) {
  ed_side side = {ed_nms_smaller(corners[0], corners[2]), ed_nms_larger(corners[0], corners[2]),
                  ed_nms_smaller(corners[1], corners[3]), ed_nms_larger(corners[1], corners[3]), 0};
  side.area = (side.ymax - side.ymin) * (side.xmax - side.xmin);
  return side;
}

static void keep(const ed_sides *kept, size_t at, const ed_side *side) {
  kept->ymin[at] = side->ymin;
  kept->ymax[at] = side->ymax;
  kept->xmin[at] = side->xmin;
  kept->xmax[at] = side->xmax;
  kept->area[at] = side->area;
}

// Lowers a score by the overlaps with the boxes from `begin` on, the last first; false if one reaches the threshold.
static bool decay(const ed_nms *is, const ed_nms_loops *loops, const ed_side *side, const ed_sides *kept, size_t begin,
                  size_t end, float *score) {
  const float scale = -0.5f / is->sigma;
  float overlaps[ED_NMS_BLOCK];
  for (; end > begin && *score > is->score_threshold; end -= end - begin < ED_NMS_BLOCK ? end - begin : ED_NMS_BLOCK) {
    const size_t count = end - begin < ED_NMS_BLOCK ? end - begin : ED_NMS_BLOCK;
    loops->overlaps(side, kept, end - count, end, overlaps);
    for (size_t i = count; i-- > 0;) {
      if (overlaps[i] >= is->overlap_threshold) return false;
      if (overlaps[i] != 0) *score *= expf(scale * overlaps[i] * overlaps[i]);
      if (*score <= is->score_threshold) break;
    }
  }
  return true;
}

void ed_nms_run(const ed_nms *is, const ed_nms_loops *loops, const void *const *inputs, void *const *outputs,
                void *scratch) {
  const float *boxes = inputs[0], *scores = inputs[1];
  int32_t *indices = outputs[0], *selected = outputs[is->has_scores ? 2 : 1];
  float *final_scores = is->has_scores ? outputs[1] : NULL;
  const workspace space = workspace_in(is, scratch);
  const size_t candidates = loops->above(scores, is->boxes, is->score_threshold, space.found);
  for (size_t i = 0; i < candidates; i++) {
    const uint32_t box = space.found[i];
    space.begin[box] = 0;
    space.score[box] = scores[box];
    ed_gnu_rise(space.heap, i, 0, (uint64_t)ed_order_of_float(scores[box]) << 32 | box);
  }
  const size_t most = candidates < is->most ? candidates : is->most;
  size_t found = 0, count = candidates;
  while (found < most && count > 0) {
    const uint32_t box = (uint32_t)ed_gnu_pop(space.heap, count--);
    const ed_side side = side_of(boxes + 4 * (size_t)box);
    const float before = space.score[box];
    float score = before;
    const bool is_free = is->sigma > 0
                             ? decay(is, loops, &side, &space.kept, space.begin[box], found, &score)
                             : !loops->reaches(&side, &space.kept, space.begin[box], found, is->overlap_threshold);
    space.begin[box] = (uint32_t)found;
    if (!is_free) continue;
    if (score == before) {
      indices[found] = (int32_t)box;
      if (final_scores) final_scores[found] = score;
      keep(&space.kept, found++, &side);
    }
    if (!(score > is->score_threshold)) continue;
    space.score[box] = score;
    ed_gnu_rise(space.heap, count++, 0, (uint64_t)ed_order_of_float(score) << 32 | box);
  }
  *selected = (int32_t)found;
  memset(indices + found, 0, (is->most - found) * sizeof *indices);
  if (final_scores) memset(final_scores + found, 0, (is->most - found) * sizeof *final_scores);
}

static size_t above(const float *scores, size_t count, float threshold, uint32_t *found) {
  size_t total = 0;
  for (size_t i = 0; i < count; i++) {
    found[total] = (uint32_t)i;
    total += scores[i] > threshold;
  }
  return total;
}

static void overlaps(const ed_side *box, const ed_sides *kept, size_t first, size_t end, float *to) {
  for (size_t i = first; i < end; i++) to[i - first] = ed_nms_overlap(box, kept, i);
}

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  static const ed_nms_loops loops = {above, ed_nms_reaches, overlaps};
  (void)begin, (void)end;  // all is one piece of work
  ed_nms_run(job->state, &loops, inputs, outputs, scratch);
}

ED_KERNEL(nms, scalar, ed_nms_prepare, run);
