// SPDX-License-Identifier: Apache-2.0
// Bytes looked up in a table of 256.
#ifndef ED_LOOK_UP_NEON_H
#define ED_LOOK_UP_NEON_H

#include "neon.h"

// A table, which fills half of the registers.
typedef struct {
  uint8x16x4_t quarter[4];
} ed_quarters;

static inline ed_quarters ed_quarters_of(const uint8_t *table) {
  return (ed_quarters){
      {vld1q_u8_x4(table), vld1q_u8_x4(table + 64), vld1q_u8_x4(table + 128), vld1q_u8_x4(table + 192)}};
}

// In the first quarters; what is not in them is 0. `index` is for each quarter, 64 less than for the one before:
// outside of a quarter it changes nothing of what is there.
static inline uint8x16_t ed_look_up_in(const ed_quarters *table, int quarters, const uint8x16_t *index) {
  uint8x16_t found = vqtbl4q_u8(table->quarter[0], index[0]);
  if (quarters > 1) found = vqtbx4q_u8(found, table->quarter[1], index[1]);
  if (quarters > 2) found = vqtbx4q_u8(found, table->quarter[2], index[2]);
  if (quarters > 3) found = vqtbx4q_u8(found, table->quarter[3], index[3]);
  return found;
}

static inline uint8x16_t ed_look_up(const ed_quarters *table, uint8x16_t index) {
  const uint8x16_t indices[] = {index, vsubq_u8(index, vdupq_n_u8(64)), vsubq_u8(index, vdupq_n_u8(128)),
                                vsubq_u8(index, vdupq_n_u8(192))};
  return ed_look_up_in(table, 4, indices);
}

#endif
