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

// An index outside of a quarter changes nothing of what is there.
static inline uint8x16_t ed_look_up(const ed_quarters *table, uint8x16_t index) {
  uint8x16_t found = vqtbl4q_u8(table->quarter[0], index);
  found = vqtbx4q_u8(found, table->quarter[1], vsubq_u8(index, vdupq_n_u8(64)));
  found = vqtbx4q_u8(found, table->quarter[2], vsubq_u8(index, vdupq_n_u8(128)));
  return vqtbx4q_u8(found, table->quarter[3], vsubq_u8(index, vdupq_n_u8(192)));
}

#endif
