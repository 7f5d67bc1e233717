// SPDX-License-Identifier: Apache-2.0
#include "operators.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 20 };

void ed_operators_add(ed_operators *operators, size_t position, const char *name, uint64_t ns) {
  if (position >= MOST) return;
  if (position >= operators->count) {
    ed_operator *grown = realloc(operators->list, (position + 1) * sizeof *grown);
    if (!grown) return;
    memset(grown + operators->count, 0, (position + 1 - operators->count) * sizeof *grown);
    operators->list = grown;
    operators->count = position + 1;
  }
  ed_operator *o = &operators->list[position];
  if (!o->name) {
    o->name = strdup(name);
    o->shortest_ns = UINT64_MAX;
  }
  o->calls++;
  o->total_ns += ns;
  if (ns < o->shortest_ns) o->shortest_ns = ns;
}

void ed_operators_assign(ed_operators *operators, const int32_t *ops, const int32_t *codes, size_t count) {
  (void)operators, (void)ops, (void)codes, (void)count;
}

void ed_operators_reset(ed_operators *operators) {
  for (size_t i = 0; i < operators->count; i++) {
    ed_operator *o = &operators->list[i];
    o->calls = o->total_ns = 0;
    o->shortest_ns = UINT64_MAX;
  }
}

void ed_operators_free(ed_operators *operators) {
  for (size_t i = 0; i < operators->count; i++) {
    free(operators->list[i].name);
    free(operators->list[i].ops);
  }
  free(operators->list);
  *operators = (ed_operators){0};
}
