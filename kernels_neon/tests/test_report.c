// SPDX-License-Identifier: Apache-2.0
// A report replaces a file as a whole, and never writes through what others may have put beside it.
#include "../src/delegate/report.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

static void put(const char *path, const char *text) {
  FILE *file = fopen(path, "wb");
  CHECK(file && fputs(text, file) >= 0 && !fclose(file));
}

static bool holds(const char *path, const char *text) {
  char found[256] = "";
  FILE *file = fopen(path, "rb");
  CHECK(file);
  size_t count = fread(found, 1, sizeof found - 1, file);
  fclose(file);
  return count == strlen(text) && !memcmp(found, text, count);
}

int main(void) {
  static const char report[] = "{\"schema\": \"edgedeploy.report/1\", \"partitions\": []}\n";
  char folder[] = P_tmpdir "/test_report.XXXXXX", path[64], other[64], trap[96], error[ED_LINE];
  CHECK(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/report", folder);
  snprintf(other, sizeof other, "%s/other", folder);
  put(other, "another's");
  ed_delegate delegate = {.options = {.report = path}};
  for (int i = 0; i < 3; i++) {
    put(path, "what was there before, which is longer than the report is, as one can see when both are counted");
    for (int k = 0; k < 4; k++) {
      snprintf(trap, sizeof trap, "%s.%ld-%d.tmp", path, (long)getpid(), k);
      unlink(trap);
      CHECK(!symlink(other, trap));
    }
    CHECK(ed_report_write(&delegate, error, sizeof error));
    struct stat found;
    CHECK(!lstat(path, &found) && S_ISREG(found.st_mode));
    CHECK(holds(path, report) && holds(other, "another's"));
  }
  for (int k = 0; k < 4; k++) {
    snprintf(trap, sizeof trap, "%s.%ld-%d.tmp", path, (long)getpid(), k);
    unlink(trap);
  }
  CHECK(!unlink(path) && !unlink(other) && !rmdir(folder));
  puts("test_report: a report beside links of the names that it may use");
}
