// SPDX-License-Identifier: Apache-2.0
// The cases that a kernel takes, by seed: the same ones on every machine.
#ifndef ED_EACH_H
#define ED_EACH_H

#include "case.h"

// A case for a kernel. `reason` is NULL and `job` prepared if the kernel takes it, else it says why not.
typedef struct {
  const ed_kernel *kernel;
  ed_case *made;
  const ed_job *job;
  const char *reason;
  uint64_t seed;
} ed_tried;

// Shows cases of every kind of which the kernel takes any, until it took `count` of each, and those that it refused on
// the way. Gives how many it took.
int ed_each_case(const ed_kernel *kernel, uint64_t seed, int count, void (*see)(const ed_tried *tried, void *with),
                 void *with);

// The typical case of an op, of data of that type (a TfLiteType) and shape ("1x40x40x64"). False if there is no such
// op.
bool ed_typical_case(const char *op, int type, const char *shape, ed_case *made);

#endif
