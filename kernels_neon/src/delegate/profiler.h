// SPDX-License-Identifier: Apache-2.0
#ifndef ED_PROFILER_H
#define ED_PROFILER_H

// For `TfLiteContext.profiler`: with one there XNNPACK times its operators. Gives their times to `ed_times_event`.
void *ed_profiler(void);

#endif
