// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "detection.h"
#include "neon.h"

enum { LANES = ED_DETECTION_LANES };

// Adds those of the boxes from `box` on whose lane of `most` is not below `least`.
static size_t add(uint64_t *ranks, size_t count, float32x4_t most, float32x4_t least, size_t box) {
  uint32x4_t wanted = vcgeq_f32(most, least);
  if (!vmaxvq_u32(wanted)) return count;
  float scores[4];
  vst1q_f32(scores, most);
  for (size_t i = 0; i < 4; i++) count = ed_detection_add(ranks, count, scores[i], vgetq_lane_f32(least, 0), box + i);
  return count;
}

// The largest of each lane over a row; NaN if there is one.
static float32x4_t best_of_row(const float *row, size_t classes) {
  float32x4_t best = vdupq_n_f32(-INFINITY);
  size_t i = 0;
  if (classes >= 16) {
    float32x4x4_t four = vld1q_f32_x4(row);
    for (i = 16; i + 16 <= classes; i += 16) {
      const float32x4x4_t next = vld1q_f32_x4(row + i);
      for (int k = 0; k < 4; k++) four.val[k] = vmaxq_f32(four.val[k], next.val[k]);
    }
    best = vmaxq_f32(vmaxq_f32(four.val[0], four.val[1]), vmaxq_f32(four.val[2], four.val[3]));
  }
  for (; i + 4 <= classes; i += 4) best = vmaxq_f32(best, vld1q_f32(row + i));
  for (; i < classes; i++) best = vmaxq_f32(best, vld1q_dup_f32(row + i));
  return best;
}

static size_t best_of_reals(const ed_detection *is, const float *scores, uint64_t *ranks) {
  const float32x4_t least = vdupq_n_f32(is->score_threshold);
  const float *row = scores + is->offset;
  size_t count = 0, box = 0;
  for (; box + 4 <= is->boxes; box += 4, row += 4 * is->row) {
    const float32x4_t first = vpmaxq_f32(best_of_row(row, is->classes), best_of_row(row + is->row, is->classes));
    const float32x4_t last =
        vpmaxq_f32(best_of_row(row + 2 * is->row, is->classes), best_of_row(row + 3 * is->row, is->classes));
    count = add(ranks, count, vpmaxq_f32(first, last), least, box);
  }
  for (; box < is->boxes; box++, row += is->row) {
    const float32x4_t pairs = vpmaxq_f32(best_of_row(row, is->classes), vdupq_n_f32(-INFINITY));
    count = ed_detection_add(ranks, count, vgetq_lane_f32(vpmaxq_f32(pairs, pairs), 0), is->score_threshold, box);
  }
  return count;
}

static uint8_t best_byte(const uint8_t *row, size_t classes) {
  if (classes < 16) {
    uint8_t best = row[0];
    for (size_t i = 1; i < classes; i++) best = row[i] > best ? row[i] : best;
    return best;
  }
  uint8x16_t best = vld1q_u8(row);
  for (size_t i = 16; i + 16 <= classes; i += 16) best = vmaxq_u8(best, vld1q_u8(row + i));
  return vmaxvq_u8(vmaxq_u8(best, vld1q_u8(row + classes - 16)));  // some twice
}

// The larger byte is the larger real, but not across the border of the tail.
static size_t best_of_bytes(const ed_detection *is, const uint8_t *scores, uint64_t *ranks) {
  size_t count = 0;
  for (size_t box = 0; box < is->boxes; box++) {
    const size_t start = box * is->row + is->offset;
    float most = is->real[best_byte(scores + start, is->classes)];
    if (start + is->classes > is->tail) {
      most = ed_detection_score(is, scores, start);
      for (size_t i = 1; i < is->classes; i++) most = fmaxf(most, ed_detection_score(is, scores, start + i));
    }
    count = ed_detection_add(ranks, count, most, is->score_threshold, box);
  }
  return count;
}

static size_t best(const ed_detection *is, const void *scores, uint64_t *ranks) {
  return is->score_type == kTfLiteFloat32 ? best_of_reals(is, scores, ranks) : best_of_bytes(is, scores, ranks);
}

static void add_lanes(const ed_detection *is, const void *scores, size_t box, size_t first, size_t lanes, float least,
                      uint64_t *ranks, size_t *counts) {
  for (size_t lane = 0; lane < lanes; lane++) {
    const float score = ed_detection_score(is, scores, box * is->row + is->offset + first + lane);
    counts[lane] = ed_detection_add(ranks + lane * is->boxes, counts[lane], score, least, box);
  }
}

// Most blocks of four boxes and four classes hold nothing.
static void of_classes(const ed_detection *is, const void *scores, size_t first, float least, uint64_t *ranks,
                       size_t *counts) {
  const size_t lanes = is->classes - first < LANES ? is->classes - first : LANES;
  for (size_t lane = 0; lane < lanes; lane++) counts[lane] = 0;
  size_t box = 0;
  if (lanes == LANES && is->score_type == kTfLiteFloat32) {
    const float32x4_t bound = vdupq_n_f32(least);
    const float *at = (const float *)scores + is->offset + first;
    for (; box + 4 <= is->boxes; box += 4, at += 4 * is->row) {
      uint32x4_t wanted = vcgeq_f32(vld1q_f32(at), bound);
      for (size_t i = 1; i < 4; i++) wanted = vorrq_u32(wanted, vcgeq_f32(vld1q_f32(at + i * is->row), bound));
      if (!vmaxvq_u32(wanted)) continue;
      for (size_t i = 0; i < 4; i++) add_lanes(is, scores, box + i, first, lanes, least, ranks, counts);
    }
  } else if (lanes == LANES) {
    // Bytes are compared with the least that is enough, in the tail or before it.
    unsigned bound = 0;
    while (bound < 256 && !(is->real[bound] >= least) && !(is->real_in_tail[bound] >= least)) bound++;
    const uint8_t *at = (const uint8_t *)scores + is->offset + first;
    for (; bound < 256 && box + 4 <= is->boxes; box += 4, at += 4 * is->row) {
      uint32_t four[4];
      for (size_t i = 0; i < 4; i++) memcpy(&four[i], at + i * is->row, sizeof four[i]);
      if (!vmaxvq_u8(vcgeq_u8(vreinterpretq_u8_u32(vld1q_u32(four)), vdupq_n_u8((uint8_t)bound)))) continue;
      for (size_t i = 0; i < 4; i++) add_lanes(is, scores, box + i, first, lanes, least, ranks, counts);
    }
    if (bound == 256) return;
  }
  for (; box < is->boxes; box++) add_lanes(is, scores, box, first, lanes, least, ranks, counts);
}

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  static const ed_scan scan = {best, of_classes};
  (void)begin, (void)end;  // all is one piece of work
  ed_detection_run(job->state, &scan, inputs, outputs, scratch);
}

ED_KERNEL(detection, neon, ed_detection_prepare, run);
