// SPDX-License-Identifier: Apache-2.0
// A `tflite::Profiler` by its virtual table (tensorflow/lite/core/api/profiler.h, Itanium C++ ABI).
#include "profiler.h"

#include <stdint.h>

#include "times.h"

enum { DELEGATE_PROFILED_OPERATOR = 8 };

static void end(void *self) {
  (void)self;
}

static uint32_t begin_event(void *self, const char *tag, int type, int64_t a, int64_t b) {
  (void)self, (void)tag, (void)type, (void)a, (void)b;
  return 0;
}

static void end_event_with(void *self, uint32_t event, int64_t a, int64_t b) {
  (void)self, (void)event, (void)a, (void)b;
}

static void end_event(void *self, uint32_t event) {
  (void)self, (void)event;
}

static void add_event(void *self, const char *tag, int type, uint64_t elapsed_us, int64_t position, int64_t b) {
  (void)self, (void)b;
  if (type == DELEGATE_PROFILED_OPERATOR && position >= 0) ed_times_event((size_t)position, tag, elapsed_us * 1000);
}

static void add_event_with(void *self, const char *tag, int type, const void *data) {
  (void)self, (void)tag, (void)type, (void)data;
}

static void (*const profiler_functions[])(void) = {
    (void (*)(void))end,
    (void (*)(void))end,
    (void (*)(void))begin_event,
    (void (*)(void))end_event_with,
    (void (*)(void))end_event,
    (void (*)(void))add_event,
    (void (*)(void))add_event_with,
};

static struct {
  void (*const *functions)(void);
} profiler = {profiler_functions};

void *ed_profiler(void) {
  return &profiler;
}
