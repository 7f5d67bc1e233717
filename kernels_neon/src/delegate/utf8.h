// SPDX-License-Identifier: Apache-2.0
#ifndef ED_UTF8_H
#define ED_UTF8_H

#include <stdbool.h>

// Whether a text that ends with a zero byte is UTF-8: no overlong form, no surrogate, nothing past U+10FFFF.
bool ed_is_utf8(const char *text);

#endif
