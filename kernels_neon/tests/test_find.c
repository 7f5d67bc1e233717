// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "../src/kernels/kernel.h"
#include "check.h"

int main(void) {
  CHECK(!ed_find_kernel("no_such_kernel", "scalar"));
  CHECK(!strcmp(ed_find_kernel("flip_sign", "scalar")->variant, "scalar"));
  CHECK(!strcmp(ed_find_kernel("flip_sign", "no_such_variant")->variant, "scalar"));
  const ed_kernel *neon = ed_find_kernel("flip_sign", "neon");
#if defined(__aarch64__) || defined(ED_SIMDE)
  CHECK(!strcmp(neon->variant, "neon"));
#else
  CHECK(!strcmp(neon->variant, "scalar"));
#endif
  puts("test_find: a kernel is found by its name and variant");
}
