// SPDX-License-Identifier: Apache-2.0
// What a delegate node has to do: the ops of its partition that the runtime put in it, in the order of the plan, and
// the memory that passes between them.
#ifndef ED_STEPS_H
#define ED_STEPS_H

#include <stdbool.h>
#include <stddef.h>

#include "../kernels/kernel.h"
#include "plan.h"

typedef enum {
  ED_ABSENT,
  ED_OUTSIDE,   // a tensor of the runtime
  ED_INSIDE,    // at `at` in the memory inside the partition
  ED_UNPACKED,  // the unpacked constant `at`
} ed_home;

typedef struct {
  ed_home home;
  int tensor;
  size_t at;
} ed_operand;

typedef struct {
  const ed_plan_op *op;
  const ed_kernel *kernel;
  ed_op described;  // without its tensors
  int inputs_count, outputs_count;
  ed_operand *operands;  // inputs, then outputs
  ed_host host;          // the op that runs inside this step, if the kernel has one, without its result
  int between;           // which is this tensor
  void **addresses;      // of this run, in the same order
  ed_job job;
  bool is_prepared;
} ed_step;

// A constant that a folded op unpacks.
typedef struct {
  const ed_plan_op *op;
  int32_t builtin;
  int from, to;    // tensors
  bool is_output;  // it is read outside the node, too
  bool is_read;    // by a step
  void *data;      // NULL until it is unpacked
} ed_unpacked;

typedef struct {
  int tensor, rank;
  int32_t dims[ED_MAX_RANK];
} ed_shape;

typedef struct {
  size_t count, unpacked_count, shapes_count;
  ed_step *steps;
  ed_unpacked *unpacked;
  ed_shape *shapes;       // of all that it reads and writes, as planned
  size_t internal_bytes;  // memory inside the partition, without unpacked constants
} ed_steps;

// Finds what the node made of `params` does. False with the reason if it cannot be run. To be freed in any case.
bool ed_steps_find(ed_steps *steps, TfLiteContext *context, const TfLiteDelegateParams *params, const ed_plan *plan,
                   uint32_t partition, char *error, size_t error_bytes);

// Whether everything that the node reads and writes has the shape that it had when the plan was applied.
bool ed_steps_same_shapes(const ed_steps *steps, TfLiteContext *context, char *error, size_t error_bytes);

// Unpacks the constants, once.
bool ed_steps_unpack(ed_steps *steps, TfLiteContext *context, char *error, size_t error_bytes);

// Writes unpacked constants that are read outside the node.
void ed_steps_copy_out(const ed_steps *steps, TfLiteContext *context);

// Frees what a kernel's `prepare` left.
void ed_step_forget(ed_step *step);

void ed_steps_free(ed_steps *steps);

#endif
