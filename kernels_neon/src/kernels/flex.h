// SPDX-License-Identifier: Apache-2.0
// A custom op's options: a FlexBuffers map of numbers, as in https://flatbuffers.dev/flatbuffers_internals
#ifndef ED_FLEX_H
#define ED_FLEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { ED_FLEX_NULL, ED_FLEX_INT, ED_FLEX_FLOAT, ED_FLEX_OTHER } ed_flex_kind;

typedef struct {
  ed_flex_kind kind;
  int64_t integer;  // booleans and unsigned ones too
  double real;      // of either kind of number
} ed_flex_value;

// What a map holds under `key`: ED_FLEX_NULL if nothing, ED_FLEX_OTHER if something else than a number. False if the
// bytes are no map, or lead outside of themselves.
bool ed_flex_find(const uint8_t *bytes, size_t size, const char *key, ed_flex_value *found);

#endif
