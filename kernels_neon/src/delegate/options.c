// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <stdlib.h>
#include <string.h>

#include "../kernels/reject.h"

static bool parse_flag(const char *text, bool *flag) {
  *flag = !strcmp(text, "1");
  return *flag || !strcmp(text, "0");
}

static bool parse_threads(const char *text, int *threads) {
  char *end;
  long value = strtol(text, &end, 10);
  *threads = (int)value;
  return *text >= '0' && *text <= '9' && !*end && value >= 1 && value <= ED_MAX_THREADS;
}

bool ed_options_parse(ed_options *options, char *const *keys, char *const *values, size_t count, char *error,
                      size_t error_bytes) {
  *options = (ed_options){0};
  for (size_t i = 0; i < count; i++) {
    const char *key = keys[i], *value = values[i];
    if (!key || !value) return ed_reject(error, error_bytes, "an option has no %s", key ? "value" : "name");
    for (size_t k = 0; k < i; k++)
      if (!strcmp(key, keys[k])) return ed_reject(error, error_bytes, "option %s is given twice", key);
    if (!strcmp(key, "plan")) {
      options->plan = value;
    } else if (!strcmp(key, "report")) {
      options->report = value;
    } else if (!strcmp(key, "threads")) {
      if (!parse_threads(value, &options->threads))
        return ed_reject(error, error_bytes, "threads=%s: expected 1 to %d", value, ED_MAX_THREADS);
    } else if (!strcmp(key, "strict") || !strcmp(key, "times")) {
      if (!parse_flag(value, *key == 's' ? &options->strict : &options->times))
        return ed_reject(error, error_bytes, "%s=%s: expected 0 or 1", key, value);
    } else {
      return ed_reject(error, error_bytes, "unknown option %s: there are plan, report, threads, strict and times", key);
    }
  }
  if (!options->plan || !*options->plan) return ed_reject(error, error_bytes, "give it a plan: plan=/path/to/plan.edp");
  if (options->report && !*options->report) return ed_reject(error, error_bytes, "report=: expected a file");
  return true;
}
