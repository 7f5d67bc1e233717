// SPDX-License-Identifier: Apache-2.0
// A text that grows.
#ifndef ED_TEXT_H
#define ED_TEXT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
  char *data;  // ends with a zero byte; NULL while empty
  size_t size, capacity;
  bool has_failed;  // there was no memory
} ed_text;

__attribute__((format(printf, 2, 3))) void ed_text_add(ed_text *text, const char *format, ...);

// "3-5, 9": ascending numbers, runs put together; "none" if there are none. `numbers` are sorted in place.
void ed_text_add_ranges(ed_text *text, int *numbers, size_t count);

void ed_text_free(ed_text *text);

#endif
