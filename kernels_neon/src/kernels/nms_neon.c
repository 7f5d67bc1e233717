// SPDX-License-Identifier: Apache-2.0
#include "neon.h"
#include "nms.h"

static size_t above(const float *scores, size_t count, float threshold, uint32_t *found) {
  const float32x4_t bound = vdupq_n_f32(threshold);
  size_t total = 0, i = 0;
  for (; i + 16 <= count; i += 16) {
    const float32x4x4_t block = vld1q_f32_x4(scores + i);
    const uint32x4_t first = vorrq_u32(vcgtq_f32(block.val[0], bound), vcgtq_f32(block.val[1], bound));
    const uint32x4_t last = vorrq_u32(vcgtq_f32(block.val[2], bound), vcgtq_f32(block.val[3], bound));
    if (!vmaxvq_u32(vorrq_u32(first, last))) continue;
    for (size_t k = i; k < i + 16; k++) {
      found[total] = (uint32_t)k;
      total += scores[k] > threshold;
    }
  }
  for (; i < count; i++) {
    found[total] = (uint32_t)i;
    total += scores[i] > threshold;
  }
  return total;
}

static float32x4_t larger(float32x4_t a, float32x4_t b) {
  return vbslq_f32(vcltq_f32(a, b), b, a);
}
static float32x4_t smaller(float32x4_t a, float32x4_t b) {
  return vbslq_f32(vcltq_f32(b, a), b, a);
}

// With four boxes from `i` on.
static float32x4_t overlaps_of_four(const ed_side *box, const ed_sides *kept, size_t i) {
  const float32x4_t zero = vdupq_n_f32(0), area = vdupq_n_f32(box->area), areas = vld1q_f32(kept->area + i);
  const float32x4_t height = vsubq_f32(smaller(vdupq_n_f32(box->ymax), vld1q_f32(kept->ymax + i)),
                                       larger(vdupq_n_f32(box->ymin), vld1q_f32(kept->ymin + i)));
  const float32x4_t width = vsubq_f32(smaller(vdupq_n_f32(box->xmax), vld1q_f32(kept->xmax + i)),
                                      larger(vdupq_n_f32(box->xmin), vld1q_f32(kept->xmin + i)));
  const float32x4_t common = vmulq_f32(larger(height, zero), larger(width, zero));
  const float32x4_t together = vsubq_f32(vaddq_f32(area, areas), common);
  const uint32x4_t flat = vorrq_u32(vcleq_f32(area, zero), vcleq_f32(areas, zero));
  return vbslq_f32(vorrq_u32(flat, vceqq_f32(together, zero)), zero, vdivq_f32(common, together));
}

static bool reaches(const ed_side *box, const ed_sides *kept, size_t first, size_t end, float threshold) {
  for (; first + 4 <= end; first += 4) {
    if (vmaxvq_u32(vcgeq_f32(overlaps_of_four(box, kept, first), vdupq_n_f32(threshold)))) return true;
  }
  return ed_nms_reaches(box, kept, first, end, threshold);
}

static void overlaps(const ed_side *box, const ed_sides *kept, size_t first, size_t end, float *to) {
  for (; first + 4 <= end; first += 4, to += 4) vst1q_f32(to, overlaps_of_four(box, kept, first));
  for (; first < end; first++) *to++ = ed_nms_overlap(box, kept, first);
}

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  static const ed_nms_loops loops = {above, reaches, overlaps};
  (void)begin, (void)end;  // all is one piece of work
  ed_nms_run(job->state, &loops, inputs, outputs, scratch);
}

ED_KERNEL(nms, neon, ed_nms_prepare, run);
