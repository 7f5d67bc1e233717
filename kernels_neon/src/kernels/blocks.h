// SPDX-License-Identifier: Apache-2.0
// Images between NHWC and NC1HWC2, the layout of RKNN's hardware: blocks of C2 channels, [N, ceil(C / C2), H, W, C2].
//
// On the way a type may change, as QUANTIZE and DEQUANTIZE do in XNNPACK's kernels: int8 to uint8 and back with the
// zero point moved by 128 (the sign flips), float32 to bytes (times the inverse scale, to the nearest, halves to even)
// and back. Otherwise the types are the same, of 1, 2 or 4 bytes. Channels that only fill up a block are 0, in bytes:
// the zero point.
//
// These are no TFLite ops, so the planner is not offered them: whoever stands between two layouts calls them, as an op
// without inputs other than the image and with the names below.
#ifndef ED_BLOCKS_H
#define ED_BLOCKS_H

#include "kernel.h"

#define ED_TO_BLOCKS "edgedeploy.to_blocks"      // NHWC, rank 4, to NC1HWC2, rank 5
#define ED_FROM_BLOCKS "edgedeploy.from_blocks"  // and back

typedef enum { kEdCopy, kEdFlip, kEdQuantise, kEdDequantise } ed_conversion;

// The state of a job. Its units are rows of the image.
typedef struct {
  ed_conversion conversion;
  int32_t height, width, channels, blocks, depth;  // depth: C2
  size_t bytes;                                    // of an element, where nothing is converted
  float scale, inverse;                            // of the bytes
  int32_t zero_point;
  bool is_unsigned;  // the bytes are
} ed_blocks;

bool ed_to_blocks_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes);
bool ed_from_blocks_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes);

// Of one block of channels of a unit: its first element in the image and in the blocks, and how many channels it has.
typedef struct {
  size_t image, blocks, count;
} ed_block_row;

ed_block_row ed_block_row_of(const ed_blocks *state, size_t unit, size_t block);
size_t ed_blocks_read(const ed_blocks *state);  // bytes of an element that is read
void ed_to_blocks_row(const ed_blocks *state, const uint8_t *from, uint8_t *to, ed_block_row row);
void ed_from_blocks_row(const ed_blocks *state, const uint8_t *from, uint8_t *to, ed_block_row row);

// `count` values, and bytes the other way.
void ed_quantise_scalar(const ed_blocks *state, const float *from, uint8_t *to, size_t count);
void ed_dequantise_scalar(const ed_blocks *state, const uint8_t *from, float *to, size_t count);

#endif
