// SPDX-License-Identifier: Apache-2.0
#include "case.h"

extern const ed_kind ed_kinds_unary[];

const ed_kind *const ed_kinds[] = {ed_kinds_unary, NULL};
