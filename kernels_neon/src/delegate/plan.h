// SPDX-License-Identifier: Apache-2.0
// plan.edp, version 1: `docs/plan-edp.md` is the layout. Records are used in place, in the bytes as they were read.
#ifndef ED_PLAN_H
#define ED_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sha256.h"

#define ED_NONE UINT32_MAX

typedef struct {
  uint32_t index, reserved;
  uint8_t fingerprint[ED_SHA256_BYTES];
} ed_plan_subgraph;

typedef struct {
  uint32_t name, library;
} ed_plan_backend;

typedef struct {
  uint32_t backend, key, value, reserved;
} ed_plan_option;

typedef struct {
  uint32_t id, subgraph, delegate, reserved;
} ed_plan_partition;

typedef struct {
  uint32_t subgraph, index, partition, segment, backend, kernel, variant, layout;
} ed_plan_op;

typedef struct {
  void *bytes;
  uint32_t subgraphs_count, backends_count, options_count, partitions_count, ops_count;
  const ed_plan_subgraph *subgraphs;
  const ed_plan_backend *backends;
  const ed_plan_option *options;
  const ed_plan_partition *partitions;
  const ed_plan_op *ops;
  const char *strings;
} ed_plan;

// Reads a plan from `bytes`, which start at an 8-byte boundary and stay the plan's. False for bytes that break a rule
// of the document; `error` then says which, in one line.
bool ed_plan_parse(ed_plan *plan, void *bytes, size_t size, char *error, size_t error_bytes);

// Reads the file `path`. What it holds is freed with `ed_plan_free`.
bool ed_plan_read(ed_plan *plan, const char *path, char *error, size_t error_bytes);

void ed_plan_free(ed_plan *plan);

// The text of a record's field; NULL for none.
const char *ed_plan_text(const ed_plan *plan, uint32_t text);

// The ops of a partition (a position in the table): from `*first`, so many as it returns.
uint32_t ed_plan_ops(const ed_plan *plan, uint32_t partition, uint32_t *first);

// The back end that runs a partition (a position in the table); of a mixed one, that of its last op.
uint32_t ed_plan_backend_of(const ed_plan *plan, uint32_t partition);

// Whether XNNPACK is to be switched on in a runtime that does not use it by itself.
bool ed_plan_switches_xnnpack(const ed_plan *plan);

static inline bool ed_is_folded(const ed_plan_op *op) {
  return op->segment == ED_NONE;
}

#endif
