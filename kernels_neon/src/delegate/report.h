// SPDX-License-Identifier: Apache-2.0
#ifndef ED_REPORT_H
#define ED_REPORT_H

#include "delegate.h"

// Whether the partition is exactly one delegate node of exactly the planned ops.
bool ed_report_matches(const ed_delegate *delegate, uint32_t partition);

// One line about a partition that is not: the planned ops, the delegate nodes, what is left.
void ed_report_difference(const ed_delegate *delegate, uint32_t partition, char *line, size_t line_bytes);

// Writes `edgedeploy.report/1` to the file that was asked for: the whole of it, or nothing. False with the reason.
bool ed_report_write(const ed_delegate *delegate, char *error, size_t error_bytes);

#endif
