// SPDX-License-Identifier: Apache-2.0
#include "each.h"

#include <stdlib.h>
#include <string.h>

enum { TRIES = 60 };  // before a kernel that took no case of a kind is shown no more of it

static uint64_t hash(const char *text) {
  uint64_t found = 0xcbf29ce484222325u;
  for (; *text; text++) found = (found ^ (uint8_t)*text) * 0x100000001b3u;
  return found;
}

static int of_kind(const ed_kernel *kernel, const ed_kind *kind, uint64_t seed, int count,
                   void (*see)(const ed_tried *tried, void *with), void *with) {
  int taken = 0;
  for (int i = 0; taken < count && i < TRIES + 20 * taken; i++) {
    ed_random random = {.state = hash(kind->name) + seed * 1000003 + (uint64_t)i};
    ed_case made;
    ed_case_make(kind, &random, &made);
    ed_job job = {0};
    char reason[200] = "";
    bool takes = kernel->prepare(&made.op, &job, reason, sizeof reason);
    taken += takes;
    see(&(ed_tried){kernel, &made, &job, takes ? NULL : reason, random.state}, with);
    if (takes) free(job.state);
    ed_case_free(&made);
  }
  return taken;
}

int ed_each_case(const ed_kernel *kernel, uint64_t seed, int count, void (*see)(const ed_tried *tried, void *with),
                 void *with) {
  int taken = 0;
  for (int i = 0; ed_kinds[i]; i++) {
    for (const ed_kind *kind = ed_kinds[i]; kind->name; kind++) taken += of_kind(kernel, kind, seed, count, see, with);
  }
  return taken;
}

bool ed_typical_case(const char *op, int type, const char *shape, ed_case *made) {
  ed_random random = {.state = 1, .typical = true, .type = (TfLiteType)type};
  for (char *end; *shape && random.rank < ED_MAX_RANK; shape = *end == 'x' ? end + 1 : end)
    random.dims[random.rank++] = (int32_t)strtol(shape, &end, 10);
  for (int i = 0; ed_kinds[i]; i++) {
    for (const ed_kind *kind = ed_kinds[i]; kind->name; kind++) {
      if (strcmp(kind->name, op)) continue;
      ed_case_make(kind, &random, made);
      return true;
    }
  }
  return false;
}
