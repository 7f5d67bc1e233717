// SPDX-License-Identifier: Apache-2.0
// Options of the delegate: what is read, and the line for each that is wrong.
#include <string.h>

#include "../src/delegate/options.h"
#include "check.h"

static char error[256];

static bool parse(ed_options *options, const char *key, const char *value) {
  char plan[] = "plan", file[] = "p.edp", *keys[] = {plan, (char *)key}, *values[] = {file, (char *)value};
  bool is_other = key && strcmp(key, "plan");
  if (key && !is_other) values[0] = values[1];
  *error = 0;
  return ed_options_parse(options, keys, values, is_other ? 2 : 1, error, sizeof error);
}

static void refuses(const char *key, const char *value, const char *line) {
  ed_options options;
  CHECK(!parse(&options, key, value));
  CHECK(!strcmp(error, line));
}

int main(void) {
  ed_options options;
  CHECK(parse(&options, NULL, NULL) && !strcmp(options.plan, "p.edp"));
  CHECK(!options.report && !options.threads && !options.strict && !options.times);
  CHECK(parse(&options, "threads", "4") && options.threads == 4);
  CHECK(parse(&options, "strict", "1") && options.strict && parse(&options, "strict", "0") && !options.strict);
  CHECK(parse(&options, "times", "1") && options.times);
  CHECK(parse(&options, "report", "r.json") && !strcmp(options.report, "r.json"));
  const char *wrong[] = {"0", "257", "-1", "+4", " 4", "4x", "", "99999999999999999999"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    char line[128];
    snprintf(line, sizeof line, "threads=%s: expected 1 to 256", wrong[i]);
    refuses("threads", wrong[i], line);
  }
  refuses("strict", "yes", "strict=yes: expected 0 or 1");
  refuses("times", "", "times=: expected 0 or 1");
  refuses("report", "", "report=: expected a file");
  refuses("log", "1", "unknown option log: there are plan, report, threads, strict and times");
  refuses("plan", "", "give it a plan: plan=/path/to/plan.edp");
  CHECK(!ed_options_parse(&options, NULL, NULL, 0, error, sizeof error));
  char plan[] = "plan", other[] = "strict", one[] = "1", *keys[] = {plan, other, other}, *values[] = {plan, one, NULL};
  CHECK(!ed_options_parse(&options, keys, values, 3, error, sizeof error));
  CHECK(!strcmp(error, "an option has no value"));
  values[2] = one;
  CHECK(!ed_options_parse(&options, keys, values, 3, error, sizeof error));
  CHECK(!strcmp(error, "option strict is given twice"));
  puts("test_options: options and refusals");
}
