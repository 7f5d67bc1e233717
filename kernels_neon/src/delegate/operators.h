// SPDX-License-Identifier: Apache-2.0
// The operators inside an XNNPACK node, and which ops of the model they are.
#ifndef ED_OPERATORS_H
#define ED_OPERATORS_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
  char *name;  // NULL until it ran
  int32_t *ops;
  size_t ops_count;
  uint64_t calls, total_ns, shortest_ns;
} ed_operator;

typedef struct {
  size_t count;
  ed_operator *list;  // by their position in the node
} ed_operators;

// Notes one run of the operator at `position`.
void ed_operators_add(ed_operators *operators, size_t position, const char *name, uint64_t ns);

// Finds which of `ops`, in the order of the node, each operator covers. `codes` are their `BuiltinOperator`s.
void ed_operators_assign(ed_operators *operators, const int32_t *ops, const int32_t *codes, size_t count);

void ed_operators_reset(ed_operators *operators);
void ed_operators_free(ed_operators *operators);

#endif
