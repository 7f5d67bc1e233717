// SPDX-License-Identifier: Apache-2.0
#include "resize_bilinear.h"

#include <stdlib.h>

#include "../moves/moves.h"
#include "../tflite/options.h"
#include "expect.h"
#include "reject.h"

enum { MOST = 65536 };  // of a side: positions are exact in the runtime's single precision too

typedef enum { AT_CORNERS, AT_CENTRES, AT_ORIGIN } sampling;

// Where output `i` lies along an axis; false if it is no multiple of a sixteenth.
static bool place(int64_t i, int64_t size, int64_t out, sampling how, ed_between *found) {
  int64_t over = i * size, under = out;  // the position as a fraction
  if (how == AT_CORNERS && out > 1) over = i * (size - 1), under = out - 1;
  if (how == AT_CENTRES) over = (2 * i + 1) * size - out, under = 2 * out;
  if (over < 0) over = 0;
  if (over > (size - 1) * under) over = (size - 1) * under;
  int64_t first = over / under, far = over % under * ED_RESIZE_ONE;
  if (far % under) return false;
  int64_t second = far && first + 1 < size ? first + 1 : first;
  *found = (ed_between){.at = {(int32_t)first, (int32_t)second},
                        .weight = {(uint8_t)(ED_RESIZE_ONE - far / under), (uint8_t)(far / under)}};
  return true;
}

static bool place_all(int32_t size, int32_t out, sampling how, ed_between *found) {
  for (int32_t i = 0; i < out; i++) {
    if (!place(i, size, out, how, &found[i])) return false;
  }
  return true;
}

static void gather(const ed_resize *state, size_t first, ed_few *found) {
  size_t channels = state->channels;
  *found = (ed_few){.start = state->columns[first / channels].at[0] * (int32_t)channels};
  for (size_t i = 0; i < 16 && first + i < state->out_row; i++) {
    const ed_between *x = &state->columns[(first + i) / channels];
    for (int k = 0; k < 2; k++) {
      int32_t at = x->at[k] * (int32_t)channels + (int32_t)((first + i) % channels);
      found->index[k][i] = (uint8_t)(at - found->start);
      found->weight[k][i] = x->weight[k];
    }
  }
}

static bool expect_images(const ed_op *op, char *reason, size_t reason_bytes) {
  if (op->builtin != kOpResizeBilinear || !op->params)
    return ed_reject(reason, reason_bytes, "expected RESIZE_BILINEAR, got operator %d", op->builtin);
  if (!ed_expect_operands(op, 2, 1, reason, reason_bytes)) return false;
  const ed_tensor *from = &op->inputs[0], *to = &op->outputs[0];
  int64_t sizes[2];
  if (!ed_expect_bytes(from, reason, reason_bytes) || !ed_expect_alike(from, to, reason, reason_bytes) ||
      !ed_expect_integers(&op->inputs[1], 2, sizes, reason, reason_bytes))
    return false;
  bool fits = from->rank == 4 && to->rank == 4 && from->dims[0] == to->dims[0] && from->dims[3] == to->dims[3] &&
              sizes[0] == to->dims[1] && sizes[1] == to->dims[2];
  for (int i = 1; fits && i < 4; i++) fits = from->dims[i] > 0 && to->dims[i] > 0;
  return fits || ed_reject(reason, reason_bytes, "expected images of the sizes that the op is given");
}

bool ed_resize_bilinear_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes) {
  if (!expect_images(op, reason, reason_bytes)) return false;
  const ed_tensor *from = &op->inputs[0], *to = &op->outputs[0];
  const TfLiteResizeBilinearParams *params = op->params;
  if (params->align_corners && params->half_pixel_centers)
    return ed_reject(reason, reason_bytes, "expected corners or centres to be aligned, not both");
  int32_t height = from->dims[1], width = from->dims[2], out_height = to->dims[1], out_width = to->dims[2];
  if (out_height < height || out_width < width || out_height > MOST || out_width > MOST)
    return ed_reject(reason, reason_bytes, "expected sides of at most %d that get no shorter, got %dx%d to %dx%d", MOST,
                     height, width, out_height, out_width);
  size_t channels = (size_t)from->dims[3], places = (size_t)out_height + (size_t)out_width;
  size_t few = channels < ED_RESIZE_FEW ? ((size_t)out_width * channels + 15) / 16 : 0;
  ed_resize *state = malloc(sizeof *state + places * sizeof *state->rows + few * sizeof *state->few);
  if (!state) return ed_reject(reason, reason_bytes, "out of memory");
  *state = (ed_resize){.height = (size_t)height,
                       .channels = channels,
                       .in_row = (size_t)width * channels,
                       .out_row = (size_t)out_width * channels,
                       .out_height = out_height,
                       .out_width = out_width,
                       .is_unsigned = from->type == kTfLiteUInt8};
  state->columns = state->rows + out_height;
  state->few = (ed_few *)(state->rows + places);
  sampling how = params->align_corners ? AT_CORNERS : params->half_pixel_centers ? AT_CENTRES : AT_ORIGIN;
  if (!place_all(height, out_height, how, state->rows) || !place_all(width, out_width, how, state->columns)) {
    free(state);
    return ed_reject(reason, reason_bytes, "expected positions at multiples of 1/%d of a pixel, got %dx%d to %dx%d",
                     ED_RESIZE_ONE, height, width, out_height, out_width);
  }
  for (size_t i = 0; i < few; i++) gather(state, 16 * i, &state->few[i]);
  *job = (ed_job){.state = state,
                  .units = (size_t)to->dims[0] * (size_t)out_height,
                  .unit_bytes = state->in_row + state->out_row,
                  .scratch_bytes = 2 * ed_resize_row_bytes(state) + state->in_row + ED_RESIZE_WINDOW};
  return true;
}

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  (void)scratch;
  const ed_resize *state = job->state;
  size_t channels = state->channels;
  int32_t flip = state->is_unsigned ? 0 : 0x80;  // int8 becomes uint8, 128 more, and back
  for (size_t row = begin; row < end; row++) {
    const ed_between *y = &state->rows[row % (size_t)state->out_height];
    size_t first = row / (size_t)state->out_height * state->height;
    const uint8_t *rows[2];
    for (int i = 0; i < 2; i++) rows[i] = (const uint8_t *)inputs[0] + (first + (size_t)y->at[i]) * state->in_row;
    uint8_t *to = (uint8_t *)outputs[0] + row * state->out_row;
    for (int32_t column = 0; column < state->out_width; column++) {
      const ed_between *x = &state->columns[column];
      for (size_t c = 0; c < channels; c++) {
        int32_t sum = ED_RESIZE_HALF;
        for (int i = 0; i < 4; i++) {
          int32_t value = rows[i / 2][(size_t)x->at[i % 2] * channels + c] ^ flip;
          sum += value * y->weight[i / 2] * x->weight[i % 2];
        }
        *to++ = (uint8_t)(sum / (ED_RESIZE_ONE * ED_RESIZE_ONE) ^ flip);
      }
    }
  }
}

ED_KERNEL(resize_bilinear, scalar, ed_resize_bilinear_prepare, run);
