// SPDX-License-Identifier: Apache-2.0
#include "flex.h"

#include <string.h>

// Types of the format that are read; the low two bits of a packed type are the log2 of a width in bytes.
enum {
  kNull = 0,
  kInt = 1,
  kUint = 2,
  kFloat = 3,
  kIndirectInt = 6,
  kIndirectUint = 7,
  kIndirectFloat = 8,
  kMap = 9,
  kBool = 26
};

typedef struct {
  const uint8_t *bytes;
  size_t size;
} span;

static bool read_uint(span in, size_t at, size_t width, uint64_t *value) {
  if (at > in.size || width > in.size - at) return false;
  *value = 0;
  for (size_t i = 0; i < width; i++) *value |= (uint64_t)in.bytes[at + i] << (8 * i);
  return true;
}

// Follows an offset, which points back.
static bool follow(span in, size_t at, size_t width, size_t *to) {
  uint64_t offset;
  if (!read_uint(in, at, width, &offset) || offset > at) return false;
  *to = at - (size_t)offset;
  return true;
}

static bool read_number(span in, size_t at, size_t width, uint8_t packed, ed_flex_value *found) {
  int type = packed >> 2;
  if (type >= kIndirectInt && type <= kIndirectFloat) {
    if (!follow(in, at, width, &at)) return false;
    width = (size_t)1 << (packed & 3);
    type -= kIndirectInt - kInt;
  }
  *found = (ed_flex_value){.kind = type == kNull ? ED_FLEX_NULL : ED_FLEX_OTHER};
  if (type != kInt && type != kUint && type != kFloat && type != kBool) return true;
  uint64_t bits;
  if (!read_uint(in, at, width, &bits)) return false;
  if (type == kFloat) {
    if (width < 4) return true;
    float single;
    uint32_t low = (uint32_t)bits;
    memcpy(&single, &low, sizeof single);
    memcpy(&found->real, &bits, sizeof bits);
    if (width == 4) found->real = (double)single;
    found->kind = ED_FLEX_FLOAT;
    return true;
  }
  if (type == kInt && width < 8 && bits >> (8 * width - 1)) bits |= UINT64_MAX << (8 * width);
  memcpy(&found->integer, &bits, sizeof bits);
  found->real = type == kInt ? (double)found->integer : (double)bits;
  found->kind = ED_FLEX_INT;
  return true;
}

static bool is_key(span in, size_t at, const char *key) {
  size_t length = strlen(key) + 1;  // with the zero at its end
  return length <= in.size - at && !memcmp(in.bytes + at, key, length);
}

bool ed_flex_find(const uint8_t *bytes, size_t size, const char *key, ed_flex_value *found) {
  const span in = {bytes, size};
  *found = (ed_flex_value){.kind = ED_FLEX_NULL};
  if (size < 3) return false;
  size_t map, root_width = bytes[size - 1];
  uint8_t packed = bytes[size - 2];
  if (packed >> 2 != kMap || root_width < 1 || root_width > 8 || root_width > size - 2) return false;
  if (!follow(in, size - 2 - root_width, root_width, &map)) return false;
  // Before the values lie where the keys are, how wide their offsets are, and how many there are.
  const size_t width = (size_t)1 << (packed & 3);
  uint64_t count, keys_width;
  size_t keys;
  if (map < 3 * width || !follow(in, map - 3 * width, width, &keys)) return false;
  if (!read_uint(in, map - 2 * width, width, &keys_width) || !read_uint(in, map - width, width, &count)) return false;
  if (keys_width < 1 || keys_width > 8 || count > size) return false;
  for (size_t i = 0; i < count; i++) {
    size_t name;
    if (!follow(in, keys + i * (size_t)keys_width, (size_t)keys_width, &name)) return false;
    if (!is_key(in, name, key)) continue;
    uint64_t type;
    if (!read_uint(in, map + (size_t)count * width + i, 1, &type)) return false;
    return read_number(in, map + i * width, width, (uint8_t)type, found);
  }
  return true;
}
