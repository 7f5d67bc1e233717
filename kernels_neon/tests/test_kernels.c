// SPDX-License-Identifier: Apache-2.0
// test_kernels COUNT KERNEL...: the NEON file of each kernel gives the bits of its scalar file, on COUNT cases of each
// op that it takes, however the work is cut and wherever the buffers lie. Prints a checksum of all outputs, which is
// the same on every machine.
#include <string.h>

#include "check.h"
#include "harness/each.h"
#include "harness/run.h"

typedef struct {
  const ed_kernel *neon;
  uint64_t sum;
} state;

static void compare(const ed_tried *tried, void *with) {
  state *all = with;
  if (tried->reason) {
    CHECK(*tried->reason);
    return;
  }
  const ed_case *made = tried->made;
  uint8_t *expected[ED_MAX_OPERANDS], *cut[ED_MAX_OPERANDS], *found[ED_MAX_OPERANDS];
  for (int i = 0; i < made->op.outputs_count; i++) {
    size_t bytes = ed_tensor_bytes(&made->outputs[i]);
    CHECK((expected[i] = malloc(bytes + 1)) && (cut[i] = malloc(bytes + 1)) && (found[i] = malloc(bytes + 1)));
  }
  ed_random random = {.state = tried->seed};
  ed_run(tried->kernel, tried->job, made, NULL, expected);
  ed_run(tried->kernel, tried->job, made, &random, cut);
  ed_run(all->neon, tried->job, made, &random, found);
  for (int i = 0; i < made->op.outputs_count; i++) {
    size_t bytes = ed_tensor_bytes(&made->outputs[i]);
    for (size_t k = 0; k < bytes; k++) {
      if (expected[i][k] != cut[i][k] || expected[i][k] != found[i][k]) {
        fprintf(stderr, "%s, %s case %016llx: output %d byte %zu of %zu: scalar %d, in pieces %d, neon %d\n",
                tried->kernel->name, made->name, (unsigned long long)tried->seed, i, k, bytes, expected[i][k],
                cut[i][k], found[i][k]);
        exit(1);
      }
      all->sum = (all->sum ^ expected[i][k]) * 0x100000001b3u;
    }
    free(expected[i]), free(cut[i]), free(found[i]);
  }
}

int main(int count, char **words) {
  CHECK(count > 2);
  for (int i = 2; i < count; i++) {
    const ed_kernel *scalar = ed_find_kernel(words[i], "scalar");
    state all = {.neon = ed_find_kernel(words[i], "neon"), .sum = 0xcbf29ce484222325u};
    CHECK(scalar && all.neon);
    CHECK(all.neon->prepare == scalar->prepare);
    int taken = ed_each_case(scalar, 1, atoi(words[1]), compare, &all);
    CHECK(taken > 0);
    printf("test_kernels: %s, %d cases, checksum %016llx\n", words[i], taken, (unsigned long long)all.sum);
  }
}
