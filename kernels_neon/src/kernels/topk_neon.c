// SPDX-License-Identifier: Apache-2.0
#include "neon.h"
#include "topk.h"

enum { MOST_COUNTED = 255 };  // places are bytes

static void offer(const ed_topk *topk, const void *row, size_t i, uint64_t *kept) {
  ed_topk_offer(kept, topk->k, ed_rank(ed_topk_order(topk, row, i), (uint32_t)i));
}

static size_t worst(const uint64_t *kept) {
  return ed_rank_index(~kept[0]);
}

// One bit for each byte of a mask, four bits apart.
static uint64_t bits_of(uint8x16_t mask) {
  uint64_t nibbles = vget_lane_u64(vreinterpret_u64_u8(vshrn_n_u16(vreinterpretq_u16_u8(mask), 4)), 0);
  return nibbles & 0x1111111111111111u;
}

// One bit for each of 16 masks, four bits apart.
static uint64_t bits_of_16(uint32x4_t a, uint32x4_t b, uint32x4_t c, uint32x4_t d) {
  const uint16x8_t low = vcombine_u16(vmovn_u32(a), vmovn_u32(b)), high = vcombine_u16(vmovn_u32(c), vmovn_u32(d));
  return bits_of(vcombine_u8(vmovn_u16(low), vmovn_u16(high)));
}

// Most blocks hold nothing above the worst that is kept.
static void scan_bytes(const ed_topk *topk, const uint8_t *row, uint64_t *kept) {
  const uint8x16_t flip = vdupq_n_u8(topk->flip);
  uint8_t bound = row[worst(kept)] ^ topk->flip;
  size_t i = topk->k;
  for (; i + 64 <= topk->length && bound < 255; i += 64) {
    const uint8x16x4_t block = vld1q_u8_x4(row + i);
    uint8x16_t values[4], most = vdupq_n_u8(0);
    for (int j = 0; j < 4; j++) most = vmaxq_u8(most, values[j] = veorq_u8(block.val[j], flip));
    if (vmaxvq_u8(most) <= bound) continue;
    for (size_t j = 0; j < 4; j++) {
      for (uint64_t bits = bits_of(vcgtq_u8(values[j], vdupq_n_u8(bound))); bits; bits &= bits - 1)
        offer(topk, row, i + 16 * j + (size_t)__builtin_ctzll(bits) / 4, kept);
      bound = row[worst(kept)] ^ topk->flip;
    }
  }
  for (; i < topk->length && bound < 255; i++) {
    if ((row[i] ^ topk->flip) <= bound) continue;
    offer(topk, row, i, kept);
    bound = row[worst(kept)] ^ topk->flip;
  }
}

static void scan_floats(const ed_topk *topk, const float *row, uint64_t *kept) {
  size_t i = topk->k;
  for (float bound = row[worst(kept)]; i + 16 <= topk->length; i += 16) {
    const float32x4_t least = vdupq_n_f32(bound);
    const float32x4x4_t block = vld1q_f32_x4(row + i);
    uint32x4_t less[4];  // or equal; never of a NaN
    for (int j = 0; j < 4; j++) less[j] = vcleq_f32(block.val[j], least);
    if (vminvq_u32(vandq_u32(vandq_u32(less[0], less[1]), vandq_u32(less[2], less[3])))) continue;
    const uint64_t all = 0x1111111111111111u;
    for (uint64_t bits = bits_of_16(less[0], less[1], less[2], less[3]) ^ all; bits; bits &= bits - 1)
      offer(topk, row, i + (size_t)__builtin_ctzll(bits) / 4, kept);
    bound = row[worst(kept)];
  }
  for (; i < topk->length; i++) offer(topk, row, i, kept);
}

// Takes the largest of a short row out of a copy, again and again. What is taken becomes the least there is; once that
// is the largest, all that is left equals it, and its places are those in the row.
static void take_bytes(const ed_topk *topk, const uint8_t *row, uint8_t *copy, uint8_t *values, int32_t *indices) {
  const size_t blocks = (topk->length + 15) / 16;
  const uint8x16_t flip = vdupq_n_u8(topk->flip);
  memset(copy + 16 * (blocks - 1), topk->flip, 16);
  memcpy(copy, row, topk->length);
  for (size_t j = 0; j < blocks; j++) vst1q_u8(copy + 16 * j, veorq_u8(vld1q_u8(copy + 16 * j), flip));
  size_t found = 0;
  for (; found < topk->k; found++) {
    uint8x16_t largest = vld1q_u8(copy);
    for (size_t j = 1; j < blocks; j++) largest = vmaxq_u8(largest, vld1q_u8(copy + 16 * j));
    const uint8_t most = vmaxvq_u8(largest);
    if (!most) break;
    const uint8x16_t wanted = vdupq_n_u8(most);
    uint64_t bits;
    size_t j = 0;
    while (!(bits = bits_of(vceqq_u8(vld1q_u8(copy + 16 * j), wanted)))) j++;
    const size_t at = 16 * j + (size_t)__builtin_ctzll(bits) / 4;
    copy[at] = 0;
    values[found] = row[at];
    indices[found] = (int32_t)at;
  }
  for (size_t i = 0; found < topk->k; i++) {
    if (row[i] != topk->flip) continue;
    values[found] = row[i];
    indices[found++] = (int32_t)i;
  }
}

// From how many there are of each of 256, at most 255 in all, to where the first of each goes: the numbers are bytes,
// so that sixteen are added up at a time.
static void make_places(uint8_t *found) {
  const uint8x16_t zero = vdupq_n_u8(0);
  uint8x16_t next = zero;
  for (size_t i = 0; i < 256; i += 16) {
    const uint8x16_t some = vld1q_u8(found + i);
    uint8x16_t sums = vaddq_u8(some, vextq_u8(zero, some, 15));
    sums = vaddq_u8(sums, vextq_u8(zero, sums, 14));
    sums = vaddq_u8(sums, vextq_u8(zero, sums, 12));
    sums = vaddq_u8(sums, vextq_u8(zero, sums, 8));
    vst1q_u8(found + i, vaddq_u8(next, vsubq_u8(sums, some)));
    next = vaddq_u8(next, vdupq_laneq_u8(sums, 15));
  }
}

// Sorts a row of at most MOST_COUNTED bytes by counting.
static void count_bytes(const ed_topk *topk, const uint8_t *row, uint8_t *values, int32_t *indices) {
  uint8_t places[256] = {0};  // by value, the largest first
  const uint8_t flip = topk->flip ^ 0xff;
  for (size_t i = 0; i < topk->length; i++) places[row[i] ^ flip]++;
  make_places(places);
  for (size_t i = 0; i < topk->length; i++) {
    const size_t place = places[row[i] ^ flip]++;
    if (place >= topk->k) continue;
    values[place] = row[i];
    indices[place] = (int32_t)i;
  }
}

// In the order of ed_order_of_float, as signed numbers.
static int32x4_t ordered(float32x4_t values) {
  const int32x4_t bits = vreinterpretq_s32_f32(vaddq_f32(values, vdupq_n_f32(0)));
  const uint32x4_t signs = vreinterpretq_u32_s32(vshrq_n_s32(bits, 31));
  return veorq_s32(bits, vreinterpretq_s32_u32(vshrq_n_u32(signs, 1)));
}

static void take_floats(const ed_topk *topk, const float *row, int32_t *copy, float *values, int32_t *indices) {
  size_t i = 0;
  for (; i + 4 <= topk->length; i += 4) vst1q_s32(copy + i, ordered(vld1q_f32(row + i)));
  for (; i < topk->length; i++) copy[i] = vgetq_lane_s32(ordered(vdupq_n_f32(row[i])), 0);
  const size_t length = (topk->length + 15) / 16 * 16;
  for (; i < length; i++) copy[i] = INT32_MIN;
  size_t found = 0;
  for (; found < topk->k; found++) {
    int32x4x4_t largest = vld1q_s32_x4(copy);
    for (i = 16; i < length; i += 16) {
      const int32x4x4_t block = vld1q_s32_x4(copy + i);
      for (int j = 0; j < 4; j++) largest.val[j] = vmaxq_s32(largest.val[j], block.val[j]);
    }
    const int32_t most =
        vmaxvq_s32(vmaxq_s32(vmaxq_s32(largest.val[0], largest.val[1]), vmaxq_s32(largest.val[2], largest.val[3])));
    if (most == INT32_MIN) break;
    const int32x4_t wanted = vdupq_n_s32(most);
    uint64_t bits = 0;
    for (i = 0; !bits; i += 16) {
      const int32x4x4_t block = vld1q_s32_x4(copy + i);
      bits = bits_of_16(vceqq_s32(block.val[0], wanted), vceqq_s32(block.val[1], wanted),
                        vceqq_s32(block.val[2], wanted), vceqq_s32(block.val[3], wanted));
    }
    const size_t at = i - 16 + (size_t)__builtin_ctzll(bits) / 4;
    copy[at] = INT32_MIN;
    values[found] = row[at];
    indices[found] = (int32_t)at;
  }
  for (i = 0; found < topk->k; i++) {
    if (ed_order_of_float(row[i])) continue;
    values[found] = row[i];
    indices[found++] = (int32_t)i;
  }
}

typedef struct {
  uint32_t keys[MOST_COUNTED + 1];  // the lowest is the largest value
  uint8_t low[MOST_COUNTED + 1], high[MOST_COUNTED + 1];
  uint8_t half_sorted[MOST_COUNTED + 1], sorted[MOST_COUNTED + 1];  // indices
} float_sort;
_Static_assert(sizeof(float_sort) <= ED_TOPK_SHORT * sizeof(int32_t), "fits the scratch memory");

// Keys, and the first two bytes of each after the bits that all keys begin with. Gives how many those are.
static int make_keys(float_sort *sort, const float *row, size_t length) {
  const uint32x4_t flip = vdupq_n_u32(0x7fffffff);
  size_t i = 0;
  for (; i + 4 <= length; i += 4)
    vst1q_u32(sort->keys + i, veorq_u32(vreinterpretq_u32_s32(ordered(vld1q_f32(row + i))), flip));
  for (; i < length; i++) sort->keys[i] = ~ed_order_of_float(row[i]);
  for (; i % 16; i++) sort->keys[i] = sort->keys[0];
  const size_t padded = i;
  const uint32x4_t first = vdupq_n_u32(sort->keys[0]);
  uint32x4_t differing = vdupq_n_u32(0);
  for (i = 0; i < padded; i += 4) differing = vorrq_u32(differing, veorq_u32(vld1q_u32(sort->keys + i), first));
  const uint32_t longest = vmaxvq_u32(differing);
  const int common = longest ? __builtin_clz(longest) : 0;
  const int32x4_t shift = vdupq_n_s32(common);
  for (i = 0; i < padded; i += 8) {
    const uint32x4_t a = vshlq_u32(vld1q_u32(sort->keys + i), shift),
                     b = vshlq_u32(vld1q_u32(sort->keys + i + 4), shift);
    const uint16x8_t begin = vcombine_u16(vshrn_n_u32(a, 16), vshrn_n_u32(b, 16));
    vst1_u8(sort->low + i, vmovn_u16(begin));
    vst1_u8(sort->high + i, vshrn_n_u16(begin, 8));
  }
  return common;
}

// Sorts a row of at most MOST_COUNTED by those two bytes, and then what they leave undecided by moving one by one.
// False if that is too much.
static bool sort_floats(const ed_topk *topk, const float *row, float_sort *sort, float *values, int32_t *indices) {
  const size_t length = topk->length;
  const int common = make_keys(sort, row, length);
  uint8_t low[256] = {0}, high[256] = {0};
#pragma GCC unroll 4
  for (size_t i = 0; i < length; i++) {
    low[sort->low[i]]++;
    high[sort->high[i]]++;
  }
  make_places(low);
  make_places(high);
#pragma GCC unroll 4
  for (size_t i = 0; i < length; i++) sort->half_sorted[low[sort->low[i]]++] = (uint8_t)i;
#pragma GCC unroll 4
  for (size_t i = 0; i < length; i++) {
    const uint8_t index = sort->half_sorted[i];
    sort->sorted[high[sort->high[index]]++] = index;
  }
  size_t left = 4 * length;  // moves
  uint32_t before = 0;
  for (size_t i = 0; i < length; i++) {
    const uint8_t index = sort->sorted[i];
    const uint32_t key = sort->keys[index];
    if (key >= before) {
      if (i >= topk->k && (key ^ before) << common >> 16) break;  // the rest differs in those bytes
      before = key;
      continue;
    }
    size_t at = i;
    for (; at && sort->keys[sort->sorted[at - 1]] > key; at--) {
      if (!left--) return false;
      sort->sorted[at] = sort->sorted[at - 1];
    }
    sort->sorted[at] = index;
  }
#pragma GCC unroll 4
  for (size_t i = 0; i < topk->k; i++) {
    const uint8_t index = sort->sorted[i];
    indices[i] = index;
    values[i] = row[index];
  }
  return true;
}

static void run(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
                void *scratch) {
  const ed_topk *topk = job->state;
  const size_t bytes = topk->is_float ? 4 : 1;
  for (size_t unit = begin; unit < end; unit++) {
    const uint8_t *row = (const uint8_t *)inputs[0] + unit * topk->length * bytes;
    uint8_t *values = (uint8_t *)outputs[0] + unit * topk->k * bytes;
    int32_t *indices = (int32_t *)outputs[1] + unit * topk->k;
    if (!topk->is_float && topk->length <= MOST_COUNTED && ed_topk_is_counted(topk)) {
      count_bytes(topk, row, values, indices);
      continue;
    }
    if (ed_topk_by_counting(topk, row, values, indices, scratch)) continue;
    // A pass over the row for each of a few is less than keeping them in order.
    if (!topk->is_float && topk->length <= ED_TOPK_SHORT && topk->k <= 16) {
      take_bytes(topk, row, scratch, values, indices);
      continue;
    }
    if (topk->is_float && topk->length <= ED_TOPK_SHORT / 2 && topk->k <= 8) {
      take_floats(topk, (const float *)(const void *)row, scratch, (float *)(void *)values, indices);
      continue;
    }
    if (topk->is_float && topk->length >= 32 && topk->length <= MOST_COUNTED && topk->k * 6 >= topk->length &&
        sort_floats(topk, (const float *)(const void *)row, scratch, (float *)(void *)values, indices))
      continue;
    ed_topk_begin(topk, row, scratch);
    if (topk->is_float)
      scan_floats(topk, (const float *)(const void *)row, scratch);
    else
      scan_bytes(topk, row, scratch);
    ed_topk_end(topk, row, scratch, values, indices);
  }
}

ED_KERNEL(topk, neon, ed_topk_prepare, run);
