// SPDX-License-Identifier: Apache-2.0
#include "pairs.h"

#include "expect.h"
#include "reject.h"

bool ed_pairs_prepare(const ed_op *op, ed_pairs *pairs, char *reason, size_t reason_bytes) {
  if (!ed_expect_operands(op, 2, 1, reason, reason_bytes)) return false;
  const ed_tensor *a = &op->inputs[0], *b = &op->inputs[1], *to = &op->outputs[0];
  if (!ed_expect_bytes(a, reason, reason_bytes) || !ed_expect_bytes(b, reason, reason_bytes) ||
      !ed_expect_type(b, a->type, reason, reason_bytes) || !ed_expect_same_shape(a, to, reason, reason_bytes))
    return false;
  size_t many = ed_count(b), row = a->rank ? (size_t)a->dims[a->rank - 1] : 1;
  bool is_row = b->rank && (size_t)b->dims[b->rank - 1] == row && many == row;
  bool is_same = a->rank == b->rank && ed_expect_same_shape(a, b, reason, reason_bytes);
  if (b->rank > a->rank || (many != 1 && !is_row && !is_same))
    return ed_reject(reason, reason_bytes,
                     "expected a second input of the first one's shape, a row of it, or one value");
  *pairs = (ed_pairs){.elements = ed_count(a), .period = many, .is_unsigned = a->type == kTfLiteUInt8};
  return true;
}
