// SPDX-License-Identifier: Apache-2.0
#include "detection.h"

#include <math.h>
#include <string.h>

#include "gnu_heap.h"

typedef struct {
  const ed_detection *is;
  const void *boxes, *anchors;
} source;

static float byte_as_real(const void *data, size_t at, int32_t zero, float scale) {
  return ((float)((const uint8_t *)data)[at] - (float)zero) * scale;
}

// One rounding for product and sum: what the stock runtime's compiler makes of it on ARM.
static ed_box decode(const source *from, size_t box) {
  const ed_detection *is = from->is;
  double encoded[4], anchor[4];
  for (size_t i = 0; i < 4; i++) {
    const size_t at = box * is->box_values + i, of_anchor = box * 4 + i;
    if (is->box_type == kTfLiteFloat32) {
      encoded[i] = (double)((const float *)from->boxes)[at];
      anchor[i] = (double)((const float *)from->anchors)[of_anchor];
    } else {
      encoded[i] = (double)byte_as_real(from->boxes, at, is->box_zero, is->box_scale);
      anchor[i] = (double)byte_as_real(from->anchors, of_anchor, is->anchor_zero, is->anchor_scale);
    }
  }
  const float y = (float)fma(encoded[0] / is->scales[0], anchor[2], anchor[0]);
  const float x = (float)fma(encoded[1] / is->scales[1], anchor[3], anchor[1]);
  const float half_height = (float)(0.5 * exp(encoded[2] / is->scales[2]) * anchor[2]);
  const float half_width = (float)(0.5 * exp(encoded[3] / is->scales[3]) * anchor[3]);
  return (ed_box){y - half_height, x - half_width, y + half_height, x + half_width};
}

static float larger(float a, float b) {
  return a < b ? b : a;
}
static float smaller(float a, float b) {
  return b < a ? b : a;
}
static float area(const ed_box *box) {
  return (box->ymax - box->ymin) * (box->xmax - box->xmin);
}

static bool overlaps(const ed_box *kept, const ed_box *box, float threshold) {
  const float area_kept = area(kept), area_box = area(box);
  if (area_kept <= 0 || area_box <= 0) return false;
  const float height = smaller(kept->ymax, box->ymax) - larger(kept->ymin, box->ymin);
  const float width = smaller(kept->xmax, box->xmax) - larger(kept->xmin, box->xmin);
  const float common = larger(height, 0) * larger(width, 0);
  return common / (area_kept + area_box - common) > threshold;
}

// Takes the best candidates off `ranks` that overlap none taken before, at most `most`, none with a score below
// `least`. Writes where they are and their boxes; gives how many.
static size_t suppress(const source *from, uint64_t *ranks, size_t count, size_t most, float least, ed_box *boxes,
                       uint32_t *taken) {
  const uint64_t last = ed_rank(ed_order_of_float(least), UINT32_MAX);
  size_t found = 0;
  ed_heap_make(ranks, count);
  for (; count > 0 && found < most && ranks[0] <= last; count--) {
    const uint32_t at = ed_rank_index(ed_heap_pop(ranks, count));
    const ed_box box = decode(from, at);
    bool is_free = true;
    for (size_t i = 0; i < found && is_free; i++) is_free = !overlaps(&boxes[i], &box, from->is->overlap_threshold);
    if (!is_free) continue;
    boxes[found] = box;
    taken[found++] = at;
  }
  return found;
}

typedef struct {
  float *boxes, *classes, *scores, *count;
} results;

static void write(const results *to, size_t place, const ed_box *box, size_t class_index, float score) {
  memcpy(to->boxes + 4 * place, box, sizeof *box);
  to->classes[place] = (float)class_index;
  to->scores[place] = score;
}

// The best classes of a box, those that are shown, the best first; equal ones in the stock runtime's order.
static void order_classes(const ed_detection *is, const void *scores, size_t start, uint64_t *order) {
  if (is->shown > 1) {
    for (size_t i = 0; i < is->classes; i++) {
      const uint32_t of_score = ed_order_of_float(ed_detection_score(is, scores, start + i));
      order[i] = ed_rank(of_score, (uint32_t)i);
    }
    ed_gnu_partial_sort(order, is->shown, is->classes);
    return;
  }
  size_t best = 0;
  for (size_t i = 1; i < is->classes; i++) {
    if (ed_detection_score(is, scores, start + i) > ed_detection_score(is, scores, start + best)) best = i;
  }
  order[0] = best;
}

static size_t run_fast(const source *from, const ed_scan *scan, const void *scores, const results *to,
                       const ed_workspace *space) {
  const ed_detection *is = from->is;
  const size_t candidates = scan->best(is, scores, space->ranks);
  const size_t found =
      suppress(from, space->ranks, candidates, is->most, is->score_threshold, space->boxes, space->taken);
  for (size_t i = 0; i < found; i++) {
    const size_t start = space->taken[i] * is->row + is->offset;
    order_classes(is, scores, start, space->order);
    for (size_t k = 0; k < is->shown; k++) {
      const uint32_t of_class = ed_rank_index(space->order[k]);
      write(to, i * is->step + k, &space->boxes[i], of_class, ed_detection_score(is, scores, start + of_class));
    }
  }
  return found;
}

// Puts a detection where it belongs among `count`, after those of the same score; gives how many there are then.
static size_t insert(ed_found *best, size_t count, size_t most, ed_found found) {
  size_t place = count;
  while (place > 0 && best[place - 1].score < found.score) place--;
  if (place == most) return count;
  const size_t moved = (count < most ? count : most - 1) - place;
  memmove(&best[place + 1], &best[place], moved * sizeof *best);
  best[place] = found;
  return count < most ? count + 1 : count;
}

static size_t run_by_class(const source *from, const ed_scan *scan, const void *scores, const results *to,
                           const ed_workspace *space) {
  const ed_detection *is = from->is;
  ed_found *best = space->best;
  size_t count = 0, counts[ED_DETECTION_LANES];
  float least = is->score_threshold;
  for (size_t first = 0; first < is->classes; first += ED_DETECTION_LANES) {
    scan->of_classes(is, scores, first, least, space->ranks, counts);
    for (size_t lane = 0; lane < ED_DETECTION_LANES && first + lane < is->classes; lane++) {
      uint64_t *ranks = space->ranks + lane * is->boxes;
      const size_t found = suppress(from, ranks, counts[lane], is->most_of_class, least, space->boxes, space->taken);
      for (size_t i = 0; i < found; i++) {
        const uint32_t box = space->taken[i], class_index = (uint32_t)(first + lane);
        const float score = ed_detection_score(is, scores, box * is->row + is->offset + class_index);
        count = insert(best, count, is->most, (ed_found){score, box, class_index});
      }
      // What equals the worst of a full list comes after it, and is left out.
      if (count == is->most) least = fmaxf(least, nextafterf(best[count - 1].score, INFINITY));
    }
  }
  for (size_t i = 0; i < count; i++) {
    const ed_box box = decode(from, best[i].box);
    write(to, i, &box, best[i].class_index, best[i].score);
  }
  return count;
}

void ed_detection_run(const ed_detection *is, const ed_scan *scan, const void *const *inputs, void *const *outputs,
                      void *scratch) {
  const source from = {is, inputs[0], inputs[2]};
  const results to = {outputs[0], outputs[1], outputs[2], outputs[3]};
  memset(to.boxes, 0, is->rows * sizeof(ed_box));
  memset(to.classes, 0, is->rows * sizeof *to.classes);
  memset(to.scores, 0, is->rows * sizeof *to.scores);
  const ed_workspace space = ed_detection_workspace(is, scratch);
  const size_t found = (is->by_class ? run_by_class : run_fast)(&from, scan, inputs[1], &to, &space);
  *to.count = (float)found;
}

static size_t best(const ed_detection *is, const void *scores, uint64_t *ranks) {
  size_t count = 0;
  for (size_t box = 0; box < is->boxes; box++) {
    float most = -INFINITY;
    for (size_t i = 0; i < is->classes; i++) {
      const float score = ed_detection_score(is, scores, box * is->row + is->offset + i);
      most = most != most || score <= most ? most : score;  // a NaN stays
    }
    count = ed_detection_add(ranks, count, most, is->score_threshold, box);
  }
  return count;
}

static void of_classes(const ed_detection *is, const void *scores, size_t first, float least, uint64_t *ranks,
                       size_t *counts) {
  for (size_t lane = 0; lane < ED_DETECTION_LANES && first + lane < is->classes; lane++) {
    counts[lane] = 0;
    for (size_t box = 0; box < is->boxes; box++) {
      const float score = ed_detection_score(is, scores, box * is->row + is->offset + first + lane);
      counts[lane] = ed_detection_add(ranks + lane * is->boxes, counts[lane], score, least, box);
    }
  }
}

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  static const ed_scan scan = {best, of_classes};
  (void)begin, (void)end;  // all is one piece of work
  ed_detection_run(job->state, &scan, inputs, outputs, scratch);
}

ED_KERNEL(detection, scalar, ed_detection_prepare, run);
