// SPDX-License-Identifier: Apache-2.0
#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void ed_text_add(ed_text *text, const char *format, ...) {
  if (text->has_failed) return;
  for (;;) {
    size_t room = text->capacity - text->size;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text->data ? text->data + text->size : NULL, room, format, arguments);
    va_end(arguments);
    if (length >= 0 && (size_t)length < room) {
      text->size += (size_t)length;
      return;
    }
    size_t capacity = 2 * text->capacity + (length < 0 ? 0 : (size_t)length) + 64;
    char *grown = length < 0 ? NULL : realloc(text->data, capacity);
    if (!grown) {
      text->has_failed = true;
      return;
    }
    text->data = grown;
    text->capacity = capacity;
  }
}

static int ascending(const void *a, const void *b) {
  int x = *(const int *)a, y = *(const int *)b;
  return (x > y) - (x < y);
}

void ed_text_add_ranges(ed_text *text, int *numbers, size_t count) {
  if (count) qsort(numbers, count, sizeof *numbers, ascending);
  for (size_t i = 0, end; i < count; i = end) {
    for (end = i + 1; end < count && numbers[end] == numbers[end - 1] + 1;) end++;
    ed_text_add(text, end - i > 1 ? "%s%d-%d" : "%s%d", i ? ", " : "", numbers[i], numbers[end - 1]);
  }
  if (!count) ed_text_add(text, "none");
}

void ed_text_free(ed_text *text) {
  free(text->data);
  *text = (ed_text){0};
}
