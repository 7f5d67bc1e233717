// SPDX-License-Identifier: Apache-2.0
#include "case.h"

extern const ed_kind ed_kinds_unary[], ed_kinds_move[], ed_kinds_rows[], ed_kinds_pool[], ed_kinds_binary[],
    ed_kinds_blocks[], ed_kinds_tail[], ed_kinds_resize[];

const ed_kind *const ed_kinds[] = {ed_kinds_unary,  ed_kinds_move, ed_kinds_rows,   ed_kinds_pool, ed_kinds_binary,
                                   ed_kinds_blocks, ed_kinds_tail, ed_kinds_resize, NULL};
