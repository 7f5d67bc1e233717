// SPDX-License-Identifier: Apache-2.0
// The options of the delegate: `include/edgedeploy.h` documents them.
#ifndef ED_OPTIONS_H
#define ED_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

enum { ED_MAX_THREADS = 256 };

typedef struct {
  const char *plan;
  const char *report;  // NULL if none is asked for
  int threads;         // 0: as many as the interpreter has
  bool strict;
  bool times;
} ed_options;

// False for what is no option or no value of it; `error` then says so in one line. The texts stay the caller's.
bool ed_options_parse(ed_options *options, char *const *keys, char *const *values, size_t count, char *error,
                      size_t error_bytes);

#endif
