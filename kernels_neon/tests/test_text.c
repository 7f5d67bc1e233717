// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "../src/delegate/text.h"
#include "../src/delegate/utf8.h"
#include "check.h"

static void ranges(int *numbers, size_t count, const char *expected) {
  ed_text text = {0};
  ed_text_add_ranges(&text, numbers, count);
  CHECK(!strcmp(text.data, expected));
  ed_text_free(&text);
}

int main(void) {
  ranges(NULL, 0, "none");
  ranges((int[]){4}, 1, "4");
  ranges((int[]){9, 3, 5, 4}, 4, "3-5, 9");
  ranges((int[]){1, 2, 4, 5}, 4, "1-2, 4-5");
  ed_text text = {0};
  for (int i = 0; i < 1000; i++) ed_text_add(&text, "%d,", i);
  CHECK(text.size == 10 * 2 + 90 * 3 + 900 * 4 && strlen(text.data) == text.size && !text.has_failed);
  ed_text_free(&text);
  const char *good[] = {"", "a", "\xc2\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"};
  const char *bad[] = {"\x80",
                       "\xc1\xbf",
                       "\xc2",
                       "\xe0\x9f\xbf",
                       "\xed\xa0\x80",
                       "\xf0\x8f\xbf\xbf",
                       "\xf4\x90\x80\x80",
                       "\xf5\x80\x80\x80",
                       "\xff",
                       "a\xe2\x82"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) CHECK(ed_is_utf8(good[i]));
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) CHECK(!ed_is_utf8(bad[i]));
  puts("test_text: ranges, growth, UTF-8");
}
