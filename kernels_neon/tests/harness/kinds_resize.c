// SPDX-License-Identifier: Apache-2.0
// Images made larger or smaller.
#include <string.h>

#include "../../src/tflite/options.h"
#include "case.h"

static const TfLiteType kBytes[] = {kTfLiteInt8, kTfLiteUInt8};

// By a power of two, up or down, or to any size.
static int32_t other_size(ed_random *random, int32_t size, bool at_corners) {
  if (ed_chance(random, 15)) return ed_pick(random, 1, 40);
  int32_t factor = 1 << ed_pick(random, 0, 4), steps = at_corners ? size - 1 : size;
  steps = ed_chance(random, 10) ? steps / factor : steps * factor;
  return at_corners ? steps + 1 : steps ? steps : 1;
}

// The typical one is twice as large; or with corners aligned, so many times as a fifth size says.
static void resize(const ed_kind *kind, ed_random *random, ed_case *made) {
  (void)kind;
  int32_t in[4], out[4];
  bool is_plain = random->typical && random->rank == 4,
       at_corners = random->typical ? !is_plain : ed_chance(random, 35);
  bool at_centres = is_plain || (!at_corners && ed_chance(random, 60));
  if (random->typical) {
    memcpy(in, random->dims, sizeof in);
  } else {
    in[0] = ed_pick(random, 1, 2);
    in[1] = ed_pick(random, 1, 9);
    in[2] = ed_pick(random, 1, 9);
    in[3] = ed_pick(random, 1, ed_chance(random, 50) ? 80 : 20);
  }
  memcpy(out, in, sizeof out);
  for (int i = 1; i < 3; i++) {
    out[i] = is_plain          ? 2 * in[i]
             : random->typical ? random->dims[4] * (in[i] - 1) + 1
                               : other_size(random, in[i], at_corners);
  }
  TfLiteType type = ed_pick_type(random, 2, kBytes);
  float scale = ed_pick_scale(random);
  int32_t zero_point = ed_pick_zero_point(random, type);
  ed_quantise(made, ed_add_input(made, type, 4, in), scale, zero_point);
  if (ed_chance(random, 3))
    ed_add_input(made, kTfLiteInt32, 1, &(int32_t){2});  // computed
  else
    ed_add_constant(made, 2, out + 1);
  ed_quantise(made, ed_add_output(made, type, 4, out), ed_chance(random, 3) ? 2 * scale : scale, zero_point);
  *(TfLiteResizeBilinearParams *)made->params =
      (TfLiteResizeBilinearParams){.align_corners = at_corners, .half_pixel_centers = at_centres};
  ED_OPTIONS(made, "{\"align_corners\": %s, \"half_pixel_centers\": %s}", at_corners ? "true" : "false",
             at_centres ? "true" : "false");
}

const ed_kind ed_kinds_resize[] = {
    {"RESIZE_BILINEAR", kOpResizeBilinear, resize},
    {0},
};
