// SPDX-License-Identifier: Apache-2.0
#include "space_batch.h"

#include <stdlib.h>

#include "../moves/moves.h"
#include "../tflite/options.h"
#include "expect.h"
#include "reject.h"

enum { MOST = 1 << 30 };  // of a side with its edges, so that sums of two fit

// A tensor as [batch, height, width, bytes of a pixel]; rows have a height of 1.
typedef struct {
  int32_t batch, size[2];
  ptrdiff_t pixel;
} image;

typedef struct {
  bool to_batch;
  uint8_t fill;
  image space, batch;
  int32_t block[2], before[2];  // the image starts `before` elements after where blocks start
} layout;

static image image_of(const ed_tensor *tensor) {
  bool is_row = tensor->rank == 3;
  return (image){tensor->dims[0],
                 {is_row ? 1 : tensor->dims[1], tensor->dims[is_row ? 1 : 2]},
                 (ptrdiff_t)ed_element_bytes(tensor->type) * tensor->dims[is_row ? 2 : 3]};
}

static ptrdiff_t row_bytes(const image *of) {
  return of->pixel * of->size[1];
}

static ptrdiff_t picture_bytes(const image *of) {
  return row_bytes(of) * of->size[0];
}

// Rows and columns low..high of the pictures of one place in the blocks, whose first is `batch`.
static void add(ed_moves *moves, const layout *of, int32_t batch, const int32_t place[2], const int32_t low[2],
                const int32_t high[2], bool is_fill) {
  const image *space = &of->space, *picture = &of->batch;
  ed_box box = {.input = is_fill ? -1 : 0, .fill = of->fill, .rank = 4, .run = 1};
  ptrdiff_t *inside = of->to_batch ? box.to : box.from, *outside = of->to_batch ? box.from : box.to;
  ptrdiff_t *inside_start = of->to_batch ? &box.to_start : &box.from_start;
  ptrdiff_t *outside_start = of->to_batch ? &box.from_start : &box.to_start;
  ptrdiff_t inside_steps[] = {picture_bytes(picture), row_bytes(picture), picture->pixel, 1};
  ptrdiff_t outside_steps[] = {picture_bytes(space), row_bytes(space) * of->block[0], space->pixel * of->block[1], 1};
  int32_t dims[] = {space->batch, high[0] - low[0], high[1] - low[1], (int32_t)space->pixel};
  for (int i = 0; i < 4; i++) {
    box.dims[i] = dims[i] > 0 ? dims[i] : 0;
    inside[i] = inside_steps[i];
    outside[i] = outside_steps[i];
  }
  *inside_start = batch * picture_bytes(picture) + low[0] * row_bytes(picture) + low[1] * picture->pixel;
  *outside_start = (low[0] * of->block[0] + place[0] - of->before[0]) * row_bytes(space) +
                   (low[1] * of->block[1] + place[1] - of->before[1]) * space->pixel;
  if (is_fill) *outside_start = 0;
  ed_moves_add(moves, &box);
}

static int32_t divided_up(int32_t a, int32_t b) {
  return a > 0 ? (a + b - 1) / b : 0;
}

// One place in the blocks: what of its pictures lies in the image, and of a result the edges around it.
static void add_place(ed_moves *moves, const layout *of, const int32_t place[2]) {
  int32_t low[2], high[2], batch = (place[0] * of->block[1] + place[1]) * of->space.batch;
  for (int i = 0; i < 2; i++) {
    low[i] = divided_up(of->before[i] - place[i], of->block[i]);
    high[i] = divided_up(of->before[i] + of->space.size[i] - place[i], of->block[i]);
    if (high[i] > of->batch.size[i]) high[i] = of->batch.size[i];
    if (low[i] > high[i]) low[i] = high[i];
  }
  add(moves, of, batch, place, low, high, false);
  if (!of->to_batch) return;
  int32_t all = of->batch.size[1], end = of->batch.size[0];
  add(moves, of, batch, place, (int32_t[]){0, 0}, (int32_t[]){low[0], all}, true);
  add(moves, of, batch, place, (int32_t[]){high[0], 0}, (int32_t[]){end, all}, true);
  add(moves, of, batch, place, (int32_t[]){low[0], 0}, (int32_t[]){high[0], low[1]}, true);
  add(moves, of, batch, place, (int32_t[]){low[0], high[1]}, (int32_t[]){high[0], all}, true);
}

bool ed_space_batch_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes) {
  layout of = {.to_batch = op->builtin == kOpSpaceToBatchNd};
  if (!of.to_batch && op->builtin != kOpBatchToSpaceNd)
    return ed_reject(reason, reason_bytes, "expected SPACE_TO_BATCH_ND or its inverse, got operator %d", op->builtin);
  if (!ed_expect_operands(op, 3, 1, reason, reason_bytes)) return false;
  const ed_tensor *from = &op->inputs[0], *to = &op->outputs[0];
  int axes = from->rank - 2;
  if ((axes != 1 && axes != 2) || to->rank != from->rank)
    return ed_reject(reason, reason_bytes, "expected rank 3 or 4, got %d", from->rank);
  int64_t block[2], edges[4];
  if (!ed_expect_alike(from, to, reason, reason_bytes) ||
      !ed_expect_integers(&op->inputs[1], axes, block, reason, reason_bytes) ||
      !ed_expect_integers(&op->inputs[2], 2 * axes, edges, reason, reason_bytes))
    return false;
  of.fill = ed_element_bytes(to->type) == 1 && from->scale > 0 ? (uint8_t)to->zero_point : 0;
  of.space = image_of(of.to_batch ? from : to);
  of.batch = image_of(of.to_batch ? to : from);
  of.block[0] = 1;
  int64_t places = 1;
  bool fits = of.space.pixel == of.batch.pixel && of.space.pixel <= INT32_MAX;
  for (int i = 0; i < axes; i++) {
    int there = 2 - axes + i;
    fits = fits && edges[2 * i] >= 0 && edges[2 * i] <= MOST && edges[2 * i + 1] >= 0 && edges[2 * i + 1] <= MOST;
    if (!fits) break;
    int64_t whole = of.space.size[there] + edges[2 * i] + edges[2 * i + 1];
    fits = block[i] > 0 && block[i] <= whole && whole <= MOST && whole == block[i] * of.batch.size[there];
    if (!fits) break;
    of.block[there] = (int32_t)block[i];
    of.before[there] = (int32_t)edges[2 * i];
    places *= block[i];
  }
  if (!fits || places > 4096 || of.batch.batch != places * of.space.batch)
    return ed_reject(reason, reason_bytes, "expected shapes that the blocks and edges give");
  ed_moves *moves = ed_moves_new(5 * (int)places);
  if (!moves) return ed_reject(reason, reason_bytes, "out of memory");
  for (int32_t y = 0; y < of.block[0]; y++) {
    for (int32_t x = 0; x < of.block[1]; x++) add_place(moves, &of, (int32_t[]){y, x});
  }
  *job = ed_moves_job(moves);
  return true;
}

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  (void)scratch;
  ed_moves_run(job->state, inputs, outputs, begin, end, ed_copy_runs_scalar);
}

ED_KERNEL(space_batch, scalar, ed_space_batch_prepare, run);
