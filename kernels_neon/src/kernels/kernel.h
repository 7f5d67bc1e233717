// SPDX-License-Identifier: Apache-2.0
// What a kernel is. One kernel is one C file per variant: `NAME.c` (the scalar specification) and `NAME_neon.c`.
//
// A kernel sees values, never TFLite's context: the tests call it with what they make up, the delegate with what the
// graph holds. `prepare` judges and computes once (tables, strides); `run` does a part of the work, on any thread, with
// the same bits however the work is cut.
#ifndef ED_KERNEL_H
#define ED_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../tflite/abi.h"

enum { ED_MAX_RANK = 6 };

// Kernels may rely on this of every tensor, whatever model it comes from (`ed_expect_sound`): no dimension is below 0;
// there are as many bytes as the dimensions say, of constants too; the scale is finite and not below 0; the zero point
// of 8-bit values is one of them.
typedef struct {
  TfLiteType type;
  int rank;
  int32_t dims[ED_MAX_RANK];
  float scale;  // of a tensor with one scale, else 0
  int32_t zero_point;
  const TfLiteAffineQuantization *quantization;  // NULL if there is none
  const void *data;                              // of a constant, else NULL
} ed_tensor;

// An op that a kernel computes together with the one that alone reads its result.
typedef struct {
  int32_t builtin;
  const void *params;
  const ed_tensor *result;
} ed_host;

typedef struct {
  int32_t builtin;          // `BuiltinOperator` of the schema
  const char *custom_name;  // of a custom op, else NULL
  const void *params;       // `builtin_data`, or a custom op's options
  size_t params_bytes;      // of a custom op's options, else 0
  int version;
  int inputs_count;
  int outputs_count;
  const ed_tensor *inputs;  // an absent optional input has the type kTfLiteNoType
  const ed_tensor *outputs;
  const ed_host *host;  // of a kernel that has one, else NULL: `inputs[0]` is what the host reads
} ed_op;

// One op, prepared: filled by `prepare`.
typedef struct {
  void *state;           // from malloc, freed with `free`; NULL if the kernel needs none
  size_t units;          // pieces of work that do not depend on one another; `run` gets ranges of them
  size_t unit_bytes;     // bytes that a unit reads and writes, so that a caller can tell small ops from large ones
  size_t scratch_bytes;  // that each running thread gets, aligned to 64 bytes
} ed_job;

enum { ED_NO_HOST = -1 };

typedef struct {
  const char *name;
  const char *variant;
  int32_t host;  // `BuiltinOperator` of the op of one input whose result is the first input, and that is computed too
  // Whether the kernel computes this op. If not, `reason` holds why, in words, and the job is not to be freed.
  bool (*prepare)(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes);
  // Units begin..end of a job. Inputs and outputs are in the order of the op; an absent input is NULL. Outputs do not
  // overlap inputs. Buffers are aligned as TFLite aligns tensors (64 bytes for its arena, 4 for constants of a file),
  // and may be read and written only inside the tensor.
  void (*run)(const ed_job *job, const void *const *inputs, void *const *outputs, size_t begin, size_t end,
              void *scratch);
} ed_kernel;

// Defines a kernel's entry. The symbol is what `kernels.toml` names and what the library is asked for by its plan:
// there is no list of kernels to edit.
#define ED_KERNEL(NAME, VARIANT, PREPARE, RUN) ED_KERNEL_WITH(ED_NO_HOST, NAME, VARIANT, PREPARE, RUN)
#define ED_KERNEL_WITH(HOST, NAME, VARIANT, PREPARE, RUN)                              \
  __attribute__((visibility("default"))) extern const ed_kernel ed_##NAME##_##VARIANT; \
  const ed_kernel ed_##NAME##_##VARIANT = {#NAME, #VARIANT, HOST, PREPARE, RUN}

// The kernel of that name and variant in this library; of a variant that this build has not (NEON on x86-64) the
// scalar one, whose bits are the same; NULL if there is no such kernel.
const ed_kernel *ed_find_kernel(const char *name, const char *variant);

#endif
