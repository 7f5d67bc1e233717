// SPDX-License-Identifier: Apache-2.0
#include "blocks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../moves/moves.h"
#include "../tflite/abi.h"
#include "expect.h"
#include "reject.h"
#include "requantise.h"

static bool is_byte(const ed_tensor *tensor) {
  return tensor->type == kTfLiteInt8 || tensor->type == kTfLiteUInt8;
}

// How values change; false if no conversion is known.
static bool converted(const ed_tensor *from, const ed_tensor *to, ed_blocks *state) {
  const ed_tensor *bytes = is_byte(from) ? from : to;
  state->is_unsigned = bytes->type == kTfLiteUInt8;
  state->scale = bytes->scale;
  state->inverse = 1 / bytes->scale;
  state->zero_point = is_byte(bytes) ? bytes->zero_point : 0;
  state->bytes = ed_element_bytes(to->type);
  if (from->type == kTfLiteFloat32 && is_byte(to)) {
    state->conversion = kEdQuantise;
    return to->scale > 0;
  }
  if (is_byte(from) && to->type == kTfLiteFloat32) {
    state->conversion = kEdDequantise;
    return from->scale > 0;
  }
  bool is_alike = from->scale == to->scale;
  if (from->type == to->type) {
    state->conversion = kEdCopy;
    return is_alike && from->zero_point == to->zero_point &&
           (state->bytes == 1 || state->bytes == 2 || state->bytes == 4);
  }
  state->conversion = kEdFlip;
  state->zero_point = to->zero_point;
  int32_t shift = from->type == kTfLiteUInt8 ? -128 : 128;
  return is_byte(from) && is_byte(to) && is_alike && from->zero_point + shift == to->zero_point;
}

static bool prepare(const ed_op *op, ed_job *job, bool is_inward, char *reason, size_t reason_bytes) {
  const char *name = is_inward ? ED_TO_BLOCKS : ED_FROM_BLOCKS;
  if (op->builtin != kTfLiteBuiltinCustom || !op->custom_name || strcmp(op->custom_name, name))
    return ed_reject(reason, reason_bytes, "expected %s, got operator %d", name, op->builtin);
  if (!ed_expect_operands(op, 1, 1, reason, reason_bytes)) return false;
  const ed_tensor *from = &op->inputs[0], *to = &op->outputs[0];
  const ed_tensor *image = is_inward ? from : to, *blocks = is_inward ? to : from;
  ed_blocks state = {0}, *kept;
  if (!converted(from, to, &state))
    return ed_reject(reason, reason_bytes, "expected a copy, a flipped sign, or float32 and bytes, got types %d and %d",
                     from->type, to->type);
  bool fits = image->rank == 4 && blocks->rank == 5 && blocks->dims[4] > 0 && blocks->dims[0] == image->dims[0] &&
              blocks->dims[1] == ((int64_t)image->dims[3] + blocks->dims[4] - 1) / blocks->dims[4] &&
              blocks->dims[2] == image->dims[1] && blocks->dims[3] == image->dims[2];
  if (!fits) return ed_reject(reason, reason_bytes, "expected [N, H, W, C] and [N, ceil(C / C2), H, W, C2]");
  state.height = image->dims[1];
  state.width = image->dims[2];
  state.channels = image->dims[3];
  state.blocks = blocks->dims[1];
  state.depth = blocks->dims[4];
  if (!(kept = malloc(sizeof *kept))) return ed_reject(reason, reason_bytes, "out of memory");
  *kept = state;
  size_t row = (size_t)state.width * (size_t)state.channels;
  *job = (ed_job){.state = kept,
                  .units = (size_t)image->dims[0] * (size_t)state.height,
                  .unit_bytes = row * (ed_element_bytes(from->type) + ed_element_bytes(to->type))};
  return true;
}

bool ed_to_blocks_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes) {
  return prepare(op, job, true, reason, reason_bytes);
}

bool ed_from_blocks_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes) {
  return prepare(op, job, false, reason, reason_bytes);
}

ed_block_row ed_block_row_of(const ed_blocks *state, size_t unit, size_t block) {
  size_t width = (size_t)state->width, channels = (size_t)state->channels, depth = (size_t)state->depth;
  size_t height = (size_t)state->height, y = unit % height, batch = unit / height, left = channels - block * depth;
  return (ed_block_row){
      .image = unit * width * channels + block * depth,
      .blocks = ((batch * (size_t)state->blocks + block) * height + y) * width * depth,
      .count = left < depth ? left : depth,
  };
}

void ed_quantise_scalar(const ed_blocks *state, const float *from, uint8_t *to, size_t count) {
  int32_t least = state->is_unsigned ? 0 : -128;
  for (size_t i = 0; i < count; i++) {
    float found = rintf(from[i] * state->inverse);
    int32_t whole = isnan(found) ? 0 : (int32_t)fminf(fmaxf(found, -1024), 1024);
    to[i] = (uint8_t)ed_clamp(whole + state->zero_point, least, least + 255);
  }
}

void ed_dequantise_scalar(const ed_blocks *state, const uint8_t *from, float *to, size_t count) {
  for (size_t i = 0; i < count; i++) {
    int32_t value = state->is_unsigned ? from[i] : (int8_t)from[i];
    to[i] = (float)(value - state->zero_point) * state->scale;
  }
}

// `count` values, as the conversion says.
static void convert(const ed_blocks *state, const uint8_t *from, uint8_t *to, size_t count) {
  switch (state->conversion) {
    case kEdQuantise:
      ed_quantise_scalar(state, (const float *)(const void *)from, to, count);
      return;
    case kEdDequantise:
      ed_dequantise_scalar(state, from, (float *)(void *)to, count);
      return;
    case kEdFlip:
      for (size_t i = 0; i < count; i++) to[i] = from[i] ^ 0x80;
      return;
    default:
      memcpy(to, from, count * state->bytes);
  }
}

size_t ed_blocks_read(const ed_blocks *state) {
  return state->conversion == kEdQuantise ? 4 : state->conversion == kEdDequantise ? 1 : state->bytes;
}

void ed_to_blocks_row(const ed_blocks *state, const uint8_t *from, uint8_t *to, ed_block_row row) {
  size_t depth = (size_t)state->depth, read = ed_blocks_read(state), written = state->bytes;
  for (size_t x = 0; x < (size_t)state->width; x++) {
    uint8_t *block = to + (row.blocks + x * depth) * written;
    convert(state, from + (row.image + x * (size_t)state->channels) * read, block, row.count);
    memset(block + row.count * written, written == 1 ? (uint8_t)state->zero_point : 0, (depth - row.count) * written);
  }
}

void ed_from_blocks_row(const ed_blocks *state, const uint8_t *from, uint8_t *to, ed_block_row row) {
  size_t depth = (size_t)state->depth, read = ed_blocks_read(state), written = state->bytes;
  for (size_t x = 0; x < (size_t)state->width; x++) {
    const uint8_t *block = from + (row.blocks + x * depth) * read;
    convert(state, block, to + (row.image + x * (size_t)state->channels) * written, row.count);
  }
}
