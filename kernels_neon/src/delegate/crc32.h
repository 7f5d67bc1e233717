// SPDX-License-Identifier: Apache-2.0
// CRC-32 of IEEE 802.3, as in zlib.
#ifndef ED_CRC32_H
#define ED_CRC32_H

#include <stddef.h>
#include <stdint.h>

uint32_t ed_crc32(const void *data, size_t bytes);

#endif
