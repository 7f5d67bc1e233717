// SPDX-License-Identifier: Apache-2.0
// How long each thing that the runtime executes takes. `include/edgedeploy.h` has the call that gives it.
#ifndef ED_TIMES_H
#define ED_TIMES_H

#include "delegate.h"

ed_times *ed_times_open(const TfLiteDelegate *delegate);

// Remembers a context, and has XNNPACK tell the times of its operators. To be called while a delegate is applied.
void ed_times_watch(ed_times *times, TfLiteContext *context, uint32_t subgraph);

// Notes a run of an operator of the node that runs on this thread.
void ed_times_event(size_t position, const char *name, uint64_t ns);

void ed_times_close(ed_times *times);

#endif
