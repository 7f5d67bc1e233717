// SPDX-License-Identifier: Apache-2.0
// Options of a custom op: what a map holds, and that no bytes lead the reader outside of them.
#include <string.h>

#include "../src/kernels/flex.h"
#include "check.h"

// {"a": -2, "b": 300, "c": 0.5, "d": true, "e": "text"}, written by FlatBuffers' own Python package.
static const uint8_t kMap[] = {0x61, 0x00, 0x62, 0x00, 0x63, 0x00, 0x64, 0x00, 0x65, 0x00, 0x04, 0x74, 0x65,
                               0x78, 0x74, 0x00, 0x05, 0x11, 0x10, 0x0f, 0x0e, 0x0d, 0x00, 0x00, 0x07, 0x00,
                               0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0xfe, 0xff, 0xff,
                               0xff, 0x2c, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x3f, 0x01, 0x00, 0x00, 0x00,
                               0x29, 0x00, 0x00, 0x00, 0x06, 0x06, 0x0e, 0x6a, 0x14, 0x19, 0x26, 0x01};

static bool is(const uint8_t *bytes, size_t size, const char *key, ed_flex_kind kind, double value) {
  ed_flex_value found;
  return ed_flex_find(bytes, size, key, &found) && found.kind == kind && !(found.real < value) && !(found.real > value);
}

static void any_bytes(const uint8_t *bytes, size_t size) {
  static const char *const keys[] = {"a", "b", "c", "d", "e", ""};
  uint8_t *copy = malloc(size + !size);  // for the address sanitizer: exactly as long
  CHECK(copy);
  memcpy(copy, bytes, size);
  ed_flex_value found;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) ed_flex_find(copy, size, keys[i], &found);
  free(copy);
}

int main(void) {
  CHECK(is(kMap, sizeof kMap, "a", ED_FLEX_INT, -2));
  CHECK(is(kMap, sizeof kMap, "b", ED_FLEX_INT, 300));
  CHECK(is(kMap, sizeof kMap, "c", ED_FLEX_FLOAT, 0.5));
  CHECK(is(kMap, sizeof kMap, "d", ED_FLEX_INT, 1));
  CHECK(is(kMap, sizeof kMap, "e", ED_FLEX_OTHER, 0));
  CHECK(is(kMap, sizeof kMap, "f", ED_FLEX_NULL, 0));
  CHECK(is(kMap, sizeof kMap, "", ED_FLEX_NULL, 0));
  for (size_t size = 0; size < sizeof kMap; size++) any_bytes(kMap, size);
  uint64_t state = 1;
  for (int i = 0; i < 200000; i++) {
    uint8_t bytes[sizeof kMap];
    memcpy(bytes, kMap, sizeof kMap);
    for (int k = 0; k < 1 + i % 3; k++) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      bytes[(state >> 33) % sizeof kMap] = (uint8_t)(state >> 55);
    }
    any_bytes(bytes, sizeof bytes);
  }
  puts("test_flex: maps of numbers are read, 200000 that are damaged too");
}
