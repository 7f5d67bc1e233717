// SPDX-License-Identifier: Apache-2.0
#include "operators.h"

#include <stdbool.h>
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

// --- which ops an operator covers ------------------------------------
// XNNPACK does not say. It adds operators in the order of the ops, joins some, leaves some out and adds some of its
// own; its names tell what most of them are. So ops and operators that fit by name are paired, as many as possible in
// order (a longest common subsequence), and what lies between two pairs belongs together.

// How the names of operators begin that run an op.
static const struct {
  int32_t code;
  const char *names[3];
} NAMES[] = {
    {0, {"Add"}},
    {1, {"Average Pooling", "Global Average Pooling"}},
    {3, {"Convolution", "Fully Connected"}},
    {4, {"Convolution", "Depthwise Convolution"}},
    {5, {"Depth To Space"}},
    {6, {"Convert"}},
    {8, {"Floor"}},
    {9, {"Fully Connected", "Dynamic Fully Connected"}},
    {14, {"Sigmoid"}},
    {17, {"Max Pooling"}},
    {18, {"Multiply"}},
    {19, {"Clamp"}},
    {20, {"Clamp"}},
    {21, {"Clamp"}},
    {22, {"Static Reshape", "Copy"}},
    {23, {"Resize Bilinear"}},
    {25, {"Softmax"}},
    {26, {"Space To Depth"}},
    {28, {"TanH"}},
    {34, {"Constant Pad"}},
    {39, {"Transpose"}},
    {40, {"Mean", "Global Average Pooling"}},
    {41, {"Subtract"}},
    {42, {"Divide"}},
    {45, {"Slice"}},
    {47, {"Exp"}},
    {54, {"PReLU"}},
    {55, {"Maximum"}},
    {57, {"Minimum"}},
    {59, {"Negate"}},
    {60, {"Constant Pad"}},
    {65, {"Slice", "Static Slice"}},
    {66, {"Sine"}},
    {67, {"Deconvolution"}},
    {73, {"Log"}},
    {74, {"Sum"}},
    {75, {"Square Root"}},
    {76, {"Reciprocal Square Root"}},
    {78, {"Power"}},
    {82, {"Reduce Max"}},
    {89, {"Reduce Min"}},
    {92, {"Square"}},
    {98, {"LeakyReLU", "Leaky ReLU"}},
    {99, {"Squared Difference"}},
    {101, {"Abs"}},
    {104, {"Ceiling"}},
    {108, {"Cosine"}},
    {111, {"ELU"}},
    {114, {"Convert"}},
    {116, {"Bank"}},
    {117, {"HardSwish"}},
    {126, {"Batch Matrix Multiply"}},
    {150, {"GELU", "ApproxGELU"}},
    {158, {"Sign"}},
};

static bool fits(int32_t code, const char *name) {
  for (size_t i = 0; name && i < sizeof NAMES / sizeof *NAMES; i++) {
    if (NAMES[i].code != code) continue;
    for (size_t k = 0; k < sizeof NAMES->names / sizeof *NAMES->names; k++) {
      const char *known = NAMES[i].names[k];
      size_t length = known ? strlen(known) : 0;
      if (known && !strncmp(name, known, length) && (name[length] == ' ' || !name[length] || code == 116)) return true;
    }
  }
  return false;
}

typedef struct {
  size_t op, operator;
} pair;

// Fills `pairs` with a longest one, and gives its length; 0 without memory.
static size_t match(const ed_operators *operators, const int32_t *codes, size_t count, pair *pairs) {
  size_t width = operators->count + 1;
  uint32_t *longest = calloc((count + 1) * width, sizeof *longest);  // from op i and operator k on
  if (!longest) return 0;
  for (size_t i = count; i-- > 0;)
    for (size_t k = operators->count; k-- > 0;) {
      uint32_t down = longest[(i + 1) * width + k], right = longest[i * width + k + 1];
      uint32_t both = fits(codes[i], operators->list[k].name) ? longest[(i + 1) * width + k + 1] + 1 : 0;
      uint32_t best = down > right ? down : right;
      longest[i * width + k] = both > best ? both : best;
    }
  size_t found = 0;
  for (size_t i = 0, k = 0; i < count && k < operators->count;) {
    if (fits(codes[i], operators->list[k].name) && longest[i * width + k] == longest[(i + 1) * width + k + 1] + 1)
      pairs[found++] = (pair){i++, k++};
    else if (longest[(i + 1) * width + k] >= longest[i * width + k + 1])
      i++;
    else
      k++;
  }
  free(longest);
  return found;
}

static void cover(ed_operator *operator, const int32_t *ops, size_t first, size_t count) {
  free(operator->ops);
  operator->ops = calloc(count + 1, sizeof *operator->ops);
  operator->ops_count = operator->ops ? count : 0;
  for (size_t i = 0; i < operator->ops_count; i++) operator->ops[i] = ops[first + i];
}

void ed_operators_assign(ed_operators *operators, const int32_t *ops, const int32_t *codes, size_t count) {
  if (!operators->count || operators->list[0].ops || !count || count > MOST / operators->count) return;
  pair *pairs = calloc(count + 1, sizeof *pairs);
  if (!pairs) return;
  size_t found = match(operators, codes, count, pairs);
  // Between two pairs: ops without operators were joined with what is before them, operators without ops make ready for
  // what comes after them, and where there are both, they are these ops together.
  for (size_t p = 0, op = 0, k = 0; p <= found; p++) {
    pair next = p < found ? pairs[p] : (pair){count, operators->count};
    size_t ops_between = next.op - op, operators_between = next.operator - k;
    if (ops_between && operators_between)
      for (size_t i = k; i < next.operator; i++) cover(&operators->list[i], ops, op, ops_between);
    else if (ops_between && p)
      cover(&operators->list[k - 1], ops, pairs[p - 1].op, next.op - pairs[p - 1].op);
    else if (operators_between && (p < found || p))
      for (size_t i = k; i < next.operator; i++) cover(&operators->list[i], ops, p < found ? next.op : next.op - 1, 1);
    if (p < found) {
      bool is_first = !p && ops_between && !operators_between;
      cover(&operators->list[next.operator], ops, is_first ? 0 : next.op, is_first ? next.op + 1 : 1);
    }
    op = next.op + 1;
    k = next.operator + 1;
  }
  free(pairs);
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
