// SPDX-License-Identifier: Apache-2.0
// A kernel run on a case, between pages that may not be touched.
#ifndef ED_RUN_H
#define ED_RUN_H

#include "case.h"

typedef struct {
  uint8_t *start;
  size_t bytes;
  void *mapping;
  size_t mapped;
} ed_guarded;

// Memory with a page that may not be touched before and after it, and garbage in it. It ends at the second, so that its
// start is aligned to the type only, or starts `offset` bytes after the first.
ed_guarded ed_guarded_make(size_t bytes, bool at_end, size_t offset, uint8_t garbage);
void ed_guarded_read_only(const ed_guarded *memory);
void ed_guarded_free(ed_guarded *memory);

// Runs a prepared job. With `random`, the work is cut anywhere, done in any order, and every buffer lies where it hurts
// most; without, it is done in one go. `results[i]` gets output i.
void ed_run(const ed_kernel *kernel, const ed_job *job, const ed_case *made, ed_random *random,
            uint8_t *const *results);

#endif
