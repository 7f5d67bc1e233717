// SPDX-License-Identifier: Apache-2.0
#ifndef ED_CLAIMS_H
#define ED_CLAIMS_H

#include "delegate.h"

// `TfLiteDelegate.Prepare`: makes the plan's claims in one subgraph, one call for each partition, ascending by id. What
// is wrong is told to the context.
TfLiteStatus ed_claim(TfLiteContext *context, TfLiteDelegate *delegate);

void ed_claimed_clear(ed_claimed *claimed);

#endif
