// SPDX-License-Identifier: Apache-2.0
// SHA-256 of FIPS 180-4.
#ifndef ED_SHA256_H
#define ED_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { ED_SHA256_BYTES = 32 };

typedef struct {
  uint32_t state[8];
  uint64_t bytes;  // given so far
  uint8_t block[64];
} ed_sha256;

void ed_sha256_begin(ed_sha256 *hash);
void ed_sha256_add(ed_sha256 *hash, const void *data, size_t bytes);
void ed_sha256_end(ed_sha256 *hash, uint8_t digest[ED_SHA256_BYTES]);

#endif
