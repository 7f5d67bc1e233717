// SPDX-License-Identifier: Apache-2.0
#include "run.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../check.h"

ed_guarded ed_guarded_make(size_t bytes, bool at_end, size_t offset, uint8_t garbage) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), inner = (bytes + offset + page - 1) / page * page;
  ed_guarded made = {.bytes = bytes, .mapped = inner + 2 * page};
  made.mapping = mmap(NULL, made.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(made.mapping != MAP_FAILED);
  uint8_t *first = (uint8_t *)made.mapping + page;
  CHECK(!inner || !mprotect(first, inner, PROT_READ | PROT_WRITE));
  memset(first, garbage, inner);
  made.start = at_end ? first + inner - bytes : first + offset;
  return made;
}

void ed_guarded_read_only(const ed_guarded *memory) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  CHECK(!mprotect((uint8_t *)memory->mapping + page, memory->mapped - 2 * page, PROT_READ));
}

void ed_guarded_free(ed_guarded *memory) {
  CHECK(!munmap(memory->mapping, memory->mapped));
}

enum { PIECES = 5 };

static int cut(ed_random *random, size_t units, size_t *ends) {
  int pieces = random && units > 1 ? ed_pick(random, 1, PIECES) : 1;
  for (int i = 0; i < pieces - 1; i++) {
    size_t at = (size_t)(ed_next(random) % (units + 1));
    int k = i;
    for (; k > 0 && ends[k - 1] > at; k--) ends[k] = ends[k - 1];
    ends[k] = at;
  }
  ends[pieces - 1] = units;
  return pieces;
}

static ed_guarded place(const ed_tensor *tensor, ed_random *random, uint8_t garbage) {
  bool at_end = random && ed_chance(random, 60);
  size_t offset = random && !at_end ? ed_type_bytes(tensor->type) * (size_t)ed_pick(random, 0, 15) : 0;
  return ed_guarded_make(ed_tensor_bytes(tensor), at_end, offset, garbage);
}

void ed_run(const ed_kernel *kernel, const ed_job *job, const ed_case *made, ed_random *random,
            uint8_t *const *results) {
  ed_guarded in[ED_MAX_OPERANDS], out[ED_MAX_OPERANDS];
  const void *inputs[ED_MAX_OPERANDS] = {0};
  void *outputs[ED_MAX_OPERANDS] = {0};
  uint8_t garbage = random ? (uint8_t)ed_next(random) : 0x5a;
  for (int i = 0; i < made->op.inputs_count; i++) {
    if (!made->fed[i]) continue;
    in[i] = place(&made->inputs[i], random, garbage);
    memcpy(in[i].start, made->fed[i], in[i].bytes);
    ed_guarded_read_only(&in[i]);
    inputs[i] = in[i].start;
  }
  for (int i = 0; i < made->op.outputs_count; i++) {
    out[i] = place(&made->outputs[i], random, garbage);
    outputs[i] = out[i].start;
  }
  ed_guarded scratch = ed_guarded_make((job->scratch_bytes + 63) / 64 * 64, true, 0, garbage);
  size_t ends[PIECES];
  int pieces = cut(random, job->units, ends);
  bool backwards = random && ed_chance(random, 50);
  for (int n = 0; n < pieces; n++) {
    int i = backwards ? pieces - 1 - n : n;
    size_t begin = i ? ends[i - 1] : 0;
    if (begin < ends[i]) kernel->run(job, inputs, outputs, begin, ends[i], scratch.start);
  }
  for (int i = 0; i < made->op.outputs_count; i++) {
    memcpy(results[i], out[i].start, out[i].bytes);
    ed_guarded_free(&out[i]);
  }
  for (int i = 0; i < made->op.inputs_count; i++) {
    if (made->fed[i]) ed_guarded_free(&in[i]);
  }
  ed_guarded_free(&scratch);
}
