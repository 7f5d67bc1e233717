// SPDX-License-Identifier: Apache-2.0
#include "utf8.h"

#include <stdint.h>

bool ed_is_utf8(const char *text) {
  static const uint32_t lowest[] = {0, 0x80, 0x800, 0x10000};
  for (const uint8_t *at = (const uint8_t *)text; *at;) {
    uint32_t lead = *at++;
    if ((lead >= 0x80 && lead < 0xc2) || lead > 0xf4) return false;
    int more = (lead >= 0xc2) + (lead >= 0xe0) + (lead >= 0xf0);
    uint32_t point = more ? lead & (0x3fu >> more) : lead;
    for (int i = 0; i < more; i++) {
      if ((*at & 0xc0) != 0x80) return false;
      point = point << 6 | (*at++ & 0x3fu);
    }
    if (point < lowest[more] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return false;
  }
  return true;
}
