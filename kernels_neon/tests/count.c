// SPDX-License-Identifier: Apache-2.0
// One run of a kernel, and of a plain copy, between marks for whoever counts instructions: a mark is a call of getppid.
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "harness/each.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int ed_count_kernel(const char *name, const char *variant, const char *op, int type, const char *shape);
EXPORT void ed_count_copy(size_t bytes);
EXPORT void ed_count_nothing(void);

static void *room(size_t bytes) {
  void *memory = aligned_alloc(64, (bytes + 64) / 64 * 64);
  CHECK(memory);
  memset(memory, 1, bytes);
  return memory;
}

// Marks before and after one run of the typical case, the second of two. Gives 1 if the kernel does not take it.
int ed_count_kernel(const char *name, const char *variant, const char *op, int type, const char *shape) {
  const ed_kernel *kernel = ed_find_kernel(name, variant);
  ed_case made;
  CHECK(kernel && ed_typical_case(op, type, shape, &made));
  ed_job job = {0};
  char reason[200];
  if (!kernel->prepare(&made.op, &job, reason, sizeof reason)) return 1;
  const void *inputs[ED_MAX_OPERANDS] = {0};
  void *outputs[ED_MAX_OPERANDS] = {0}, *scratch = room(job.scratch_bytes);
  for (int i = 0; i < made.op.inputs_count; i++) {
    if (!made.fed[i]) continue;
    void *memory = room(ed_tensor_bytes(&made.inputs[i]));
    memcpy(memory, made.fed[i], ed_tensor_bytes(&made.inputs[i]));
    inputs[i] = memory;
  }
  for (int i = 0; i < made.op.outputs_count; i++) outputs[i] = room(ed_tensor_bytes(&made.outputs[i]));
  kernel->run(&job, inputs, outputs, 0, job.units, scratch);
  getppid();
  kernel->run(&job, inputs, outputs, 0, job.units, scratch);
  getppid();
  for (int i = 0; i < made.op.inputs_count; i++) free((void *)(uintptr_t)inputs[i]);
  for (int i = 0; i < made.op.outputs_count; i++) free(outputs[i]);
  free(scratch), free(job.state);
  ed_case_free(&made);
  return 0;
}

// Through a pointer: the compiler would leave out a copy that nobody reads.
static void *(*volatile copy)(void *, const void *, size_t) = memcpy;

void ed_count_copy(size_t bytes) {
  void *from = room(bytes), *to = room(bytes);
  copy(to, from, bytes);
  getppid();
  copy(to, from, bytes);
  getppid();
  free(from), free(to);
}

void ed_count_nothing(void) {
  getppid();
  getppid();
}
