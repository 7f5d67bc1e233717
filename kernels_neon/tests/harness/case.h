// SPDX-License-Identifier: Apache-2.0
// One op with its operands and what it is fed: made by seed, for a kernel to compute and for the stock runtime.
#ifndef ED_CASE_H
#define ED_CASE_H

#include <stdio.h>

#include "../../src/kernels/kernel.h"
#include "random.h"

enum { ED_MAX_OPERANDS = 24 };

typedef struct {
  ed_op op;
  const char *name;    // of the op, in the schema
  char options[2048];  // of the op, as JSON: the same as `op.params`
  _Alignas(8) char params[64];
  ed_tensor inputs[ED_MAX_OPERANDS], outputs[ED_MAX_OPERANDS];
  ed_host host;  // of a pattern of two ops
  const char *host_name;
  char host_options[64];
  _Alignas(8) char host_params[16];
  ed_tensor between;           // its result
  void *fed[ED_MAX_OPERANDS];  // what the inputs hold, constants too
  void *owned[6 * ED_MAX_OPERANDS];
  int owned_count;
} ed_case;

// What makes cases of one op. The first alternative of every choice is the typical one.
typedef struct ed_kind {
  const char *name;
  int32_t builtin;
  void (*make)(const struct ed_kind *kind, ed_random *random, ed_case *made);
} ed_kind;

extern const ed_kind *const ed_kinds[];  // tables, each ended by a kind without a name; NULL at the end

size_t ed_type_bytes(TfLiteType type);
size_t ed_elements(const ed_tensor *tensor);
size_t ed_tensor_bytes(const ed_tensor *tensor);

// A new case of that kind, with everything fed; to be given to `ed_case_free`.
void ed_case_make(const ed_kind *kind, ed_random *random, ed_case *made);
void ed_case_free(ed_case *done);
// Points the parts of a copied case to one another.
void ed_case_settle(ed_case *copy, const ed_case *made);

// For generators.
ed_tensor *ed_add_input(ed_case *made, TfLiteType type, int rank, const int32_t *dims);
ed_tensor *ed_add_output(ed_case *made, TfLiteType type, int rank, const int32_t *dims);
// Makes the op one that reads what another makes of the first input.
ed_tensor *ed_add_host(ed_case *made, const char *name, int32_t builtin, TfLiteType type, int rank,
                       const int32_t *dims);
void ed_quantise(ed_case *made, ed_tensor *tensor, float scale, int32_t zero_point);
// Random scale and zero point if the type is quantised.
void ed_quantise_any(ed_case *made, ed_random *random, ed_tensor *tensor);
void ed_add_constant(ed_case *made, int count, const int32_t *values);
// Gives the last input what its type can hold, and makes it a constant.
void ed_fill_constant(ed_case *made, ed_random *random);
void ed_custom_options(ed_case *made, const char *custom_name, const uint8_t *options, size_t bytes);
void *ed_own(ed_case *made, size_t bytes);  // zeros, freed with the case
#define ED_OPTIONS(MADE, ...) snprintf((MADE)->options, sizeof(MADE)->options, __VA_ARGS__)

#endif
