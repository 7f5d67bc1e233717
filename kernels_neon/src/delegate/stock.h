// SPDX-License-Identifier: Apache-2.0
// Stock delegates: external delegates of others, held to what a plan gives them.
#ifndef ED_STOCK_H
#define ED_STOCK_H

#include "delegate.h"

// Loads the library of a back end and makes its delegate with the plan's options. `report` is what it may complain to.
// NULL with the reason.
ed_stock *ed_stock_open(const ed_plan *plan, uint32_t backend, void (*report)(const char *), char *error,
                        size_t error_bytes);

// `TfLiteDelegateFlags` of the delegate.
int64_t ed_stock_flags(const ed_stock *stock);

// Lets the delegate claim, with nothing but `nodes` to see and to get. What the runtime says; an error is told.
TfLiteStatus ed_stock_claim(ed_stock *stock, TfLiteContext *context, const TfLiteIntArray *nodes);

// Ends the delegate. Its library stays loaded: nodes of an interpreter may still be freed by it.
void ed_stock_close(ed_stock *stock);

#endif
