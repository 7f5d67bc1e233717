// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <stdio.h>

#include "kernel.h"

static const char anchor;  // an address in whatever holds this code

// The symbol's address in whatever holds this function: the library, however it was loaded, or a test program.
static const ed_kernel *lookup(const char *name, const char *variant) {
  char symbol[128];
  int length = snprintf(symbol, sizeof symbol, "ed_%s_%s", name, variant);
  if (length < 0 || (size_t)length >= sizeof symbol) return NULL;
  Dl_info here;
  void *self = dladdr(&anchor, &here) ? dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
  if (!self) self = dlopen(NULL, RTLD_LAZY);
  if (!self) return NULL;
  const ed_kernel *kernel = dlsym(self, symbol);
  dlclose(self);  // the count only: what runs this code stays loaded
  return kernel;
}

const ed_kernel *ed_find_kernel(const char *name, const char *variant) {
  const ed_kernel *kernel = lookup(name, variant);
  return kernel ? kernel : lookup(name, "scalar");
}
