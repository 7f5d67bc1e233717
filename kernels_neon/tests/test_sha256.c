// SPDX-License-Identifier: Apache-2.0
// SHA-256 against vectors of NIST (FIPS 180-4 examples and SHA256LongMsg of the CAVP), however the data are cut.
#include <string.h>

#include "../src/delegate/sha256.h"
#include "check.h"

static void check(const char *data, size_t bytes, const char *expected) {
  for (size_t cut = 1; cut <= 130; cut += 43) {
    ed_sha256 hash;
    ed_sha256_begin(&hash);
    for (size_t at = 0; at < bytes; at += cut) ed_sha256_add(&hash, data + at, bytes - at < cut ? bytes - at : cut);
    uint8_t digest[ED_SHA256_BYTES];
    ed_sha256_end(&hash, digest);
    char text[2 * ED_SHA256_BYTES + 1];
    for (int i = 0; i < ED_SHA256_BYTES; i++) snprintf(text + 2 * i, 3, "%02x", digest[i]);
    CHECK(!strcmp(text, expected));
  }
}

int main(void) {
  check("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  check("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const char *two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  check(two, 56, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  const char *four =
      "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrst"
      "u";
  check(four, 112, "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  char *many = malloc(1000000);
  memset(many, 'a', 1000000);
  check(many, 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  free(many);
  // Lengths around a block: 55, 56 and 64 zero bytes (sha256sum of GNU coreutils 9.1).
  char zeros[64] = {0};
  check(zeros, 55, "02779466cdec163811d078815c633f21901413081449002f24aa3e80f0b88ef7");
  check(zeros, 56, "d4817aa5497628e7c77e6b606107042bbba3130888c5f47a375e6179be789fbb");
  check(zeros, 64, "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b");
  puts("test_sha256: 8 vectors, each cut in 4 ways");
}
