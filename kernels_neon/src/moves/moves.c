// SPDX-License-Identifier: Apache-2.0
#include "moves.h"

#include <stdlib.h>
#include <string.h>

#include "../kernels/expect.h"
#include "../kernels/reject.h"

ed_moves *ed_moves_new(int room) {
  ed_moves *made = malloc(sizeof *made + (size_t)room * sizeof *made->boxes);
  if (made) *made = (ed_moves){.room = room};
  return made;
}

static void drop(ed_box *box, int at) {
  for (int i = at; i + 1 < box->rank; i++) {
    box->dims[i] = box->dims[i + 1];
    box->from[i] = box->from[i + 1];
    box->to[i] = box->to[i + 1];
  }
  box->rank--;
}

static size_t runs(const ed_box *box) {
  size_t count = 1;
  for (int i = 0; i < box->rank; i++) count *= (size_t)box->dims[i];
  return count;
}

// Fills `index` with where the output's bytes `at`.. of a row are in the input, from byte `start` on; false if not all
// are in the window.
static bool look_for(const ed_box *box, size_t at, size_t bytes, size_t start, size_t window, uint8_t *index) {
  size_t step = (size_t)box->from[box->rank - 1];
  for (size_t i = 0; i < bytes; i++) {
    size_t where = (at + i) / box->run * step + (at + i) % box->run;
    if (where < start || where - start >= window) return false;
    index[i] = (uint8_t)(where - start);
  }
  return true;
}

static ed_gather gather_of(const ed_box *box) {
  ed_gather found = {0};
  int last = box->rank - 1;
  ptrdiff_t step = box->from[last];
  if (box->input < 0 || box->run > 8 || box->to[last] != (ptrdiff_t)box->run || step <= 0 || step > 64) return found;
  size_t count = (size_t)box->dims[last], read = (count - 1) * (size_t)step + box->run, at_once = 16 / box->run;
  while (at_once > 1 && (at_once - 1) * (size_t)step + box->run > 64) at_once--;
  found.window = (at_once - 1) * (size_t)step + box->run <= 32 ? 32 : 64;
  if (at_once < 2 || read < found.window || count * box->run < 16) return found;
  look_for(box, 0, at_once * box->run, 0, found.window, found.index);
  if (!look_for(box, count * box->run - 16, 16, read - found.window, found.window, found.at_end)) return found;
  found.at_once = at_once;
  return found;
}

void ed_moves_add(ed_moves *moves, const ed_box *given) {
  ed_box box = *given;
  if (!runs(&box) || moves->count == moves->room) return;
  bool is_fill = box.input < 0;
  for (int i = box.rank - 1; i >= 0; i--) {
    if (box.dims[i] == 1) drop(&box, i);
  }
  while (box.rank) {
    int last = box.rank - 1;
    if (box.to[last] != (ptrdiff_t)box.run || (!is_fill && box.from[last] != (ptrdiff_t)box.run)) break;
    box.run *= (size_t)box.dims[last];
    drop(&box, last);
  }
  for (int i = box.rank - 2; i >= 0; i--) {
    bool goes_on =
        box.to[i] == box.dims[i + 1] * box.to[i + 1] && (is_fill || box.from[i] == box.dims[i + 1] * box.from[i + 1]);
    if (!goes_on || box.dims[i] > INT32_MAX / box.dims[i + 1]) continue;
    box.dims[i + 1] *= box.dims[i];
    drop(&box, i);
  }
  if (!box.rank)
    box = (ed_box){.input = box.input,
                   .output = box.output,
                   .fill = box.fill,
                   .rank = 1,
                   .dims = {1},
                   .from_start = box.from_start,
                   .to_start = box.to_start,
                   .run = box.run};
  box.gather = gather_of(&box);
  const ed_box *before = moves->count ? &moves->boxes[moves->count - 1] : NULL;
  box.first = before ? before->first + runs(before) : 0;
  moves->boxes[moves->count++] = box;
}

static bool are_woven(const ed_moves *moves) {
  const ed_box *first = moves->boxes;
  if (moves->count < 2 || moves->count > 4 || first->run > 8 || first->run & (first->run - 1)) return false;
  const ptrdiff_t run = (ptrdiff_t)first->run, step = run * moves->count;
  const bool is_join = first->from[0] == run;
  for (int i = 0; i < moves->count; i++) {
    const ed_box *box = &moves->boxes[i];
    if (box->input < 0 || box->rank != 1 || box->run != first->run || box->dims[0] != first->dims[0]) return false;
    const bool is_side_by_side =
        is_join ? box->output == first->output && box->to_start == first->to_start + i * run && box->to[0] == step
                : box->input == first->input && box->from_start == first->from_start + i * run && box->from[0] == step;
    if (!is_side_by_side || (is_join ? box->from[0] : box->to[0]) != run) return false;
  }
  return true;
}

ed_job ed_moves_job(ed_moves *moves) {
  moves->is_woven = are_woven(moves);
  for (int i = 0; moves->is_woven && i < moves->count; i++) moves->boxes[i].first = 0;
  const ed_box *last = moves->count ? &moves->boxes[moves->count - 1] : NULL;
  size_t units = last ? last->first + runs(last) : 0, bytes = 0;
  for (int i = 0; i < moves->count; i++) bytes += runs(&moves->boxes[i]) * moves->boxes[i].run;
  return (ed_job){.state = moves, .units = units, .unit_bytes = units ? 2 * bytes / units : 0};
}

// Runs begin..end of one box: row by row of its last dimension.
static void run_box(const ed_box *box, const uint8_t *from, uint8_t *to, size_t begin, size_t end, ed_copy_runs copy) {
  int last = box->rank - 1;
  size_t row = (size_t)box->dims[last];
  ptrdiff_t from_step = box->from[last], to_step = box->to[last];
  int32_t at[ED_MAX_RANK] = {0};
  size_t left = begin / row, start = begin % row;
  ptrdiff_t from_at = 0, to_at = 0;
  for (int i = last - 1; i >= 0; i--) {
    at[i] = (int32_t)(left % (size_t)box->dims[i]);
    left /= (size_t)box->dims[i];
    from_at += at[i] * box->from[i];
    to_at += at[i] * box->to[i];
  }
  while (begin < end) {
    size_t count = end - begin < row - start ? end - begin : row - start;
    uint8_t *there = to + to_at + (ptrdiff_t)start * to_step;
    if (box->input < 0) {
      for (size_t i = 0; i < count; i++) memset(there + (ptrdiff_t)i * to_step, box->fill, box->run);
    } else {
      copy(box, there, from + from_at + (ptrdiff_t)start * from_step, count);
    }
    begin += count;
    start = 0;
    for (int i = last - 1; i >= 0; i--) {
      from_at += box->from[i];
      to_at += box->to[i];
      if (++at[i] < box->dims[i]) break;
      at[i] = 0;
      from_at -= box->dims[i] * box->from[i];
      to_at -= box->dims[i] * box->to[i];
    }
  }
}

void ed_moves_run(const ed_moves *moves, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                  ed_copy_runs copy) {
  for (int i = 0; i < moves->count; i++) {
    const ed_box *box = &moves->boxes[i];
    size_t after = box->first + runs(box);
    if (after <= begin || box->first >= end) continue;
    size_t low = begin > box->first ? begin - box->first : 0, high = (end < after ? end : after) - box->first;
    const uint8_t *from = box->input < 0 ? NULL : (const uint8_t *)inputs[box->input] + box->from_start;
    run_box(box, from, (uint8_t *)outputs[box->output] + box->to_start, low, high, copy);
  }
}

void ed_copy_runs_scalar(const ed_box *box, uint8_t *to, const uint8_t *from, size_t count) {
  ptrdiff_t to_step = box->to[box->rank - 1], from_step = box->from[box->rank - 1];
  for (size_t i = 0; i < count; i++) memcpy(to + (ptrdiff_t)i * to_step, from + (ptrdiff_t)i * from_step, box->run);
}

// --- for those that make boxes ----------

void ed_dense_steps(const ed_tensor *tensor, ptrdiff_t *steps) {
  ptrdiff_t step = (ptrdiff_t)ed_element_bytes(tensor->type);
  for (int i = tensor->rank - 1; i >= 0; i--) {
    steps[i] = step;
    step *= tensor->dims[i];
  }
}

bool ed_expect_alike(const ed_tensor *a, const ed_tensor *b, char *reason, size_t reason_bytes) {
  if (!ed_element_bytes(a->type))
    return ed_reject(reason, reason_bytes, "expected plain elements, got type %d", a->type);
  if (a->type != b->type || a->scale != b->scale || a->zero_point != b->zero_point)
    return ed_reject(reason, reason_bytes, "expected operands of one type, scale and zero point");
  return true;
}

bool ed_expect_integers(const ed_tensor *tensor, int count, int64_t *values, char *reason, size_t reason_bytes) {
  bool is_wide = tensor->type == kTfLiteInt64;
  if (!tensor->data || (tensor->type != kTfLiteInt32 && !is_wide) || ed_count(tensor) != (size_t)count)
    return ed_reject(reason, reason_bytes, "expected a constant of %d integers", count);
  for (int i = 0; i < count; i++) {
    int32_t narrow;
    const char *at = (const char *)tensor->data + (size_t)i * (is_wide ? sizeof *values : sizeof narrow);
    memcpy(is_wide ? (void *)&values[i] : (void *)&narrow, at, is_wide ? sizeof *values : sizeof narrow);
    if (!is_wide) values[i] = narrow;
  }
  return true;
}
