// SPDX-License-Identifier: Apache-2.0
#include "reject.h"

#include <stdarg.h>
#include <stdio.h>

bool ed_reject(char *reason, size_t reason_bytes, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(reason, reason_bytes, format, arguments);
  va_end(arguments);
  return false;
}
