// SPDX-License-Identifier: Apache-2.0
#include "xnnpack.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "../kernels/reject.h"

// The first members of `TfLiteXNNPackDelegateOptions` (xnnpack_delegate.h of TFLite 2.14), and room for the others, of
// which later releases have more.
typedef struct {
  int32_t num_threads;
  uint32_t flags;
  char more[240];
} xnnpack_options;

enum { QS8 = 1, QU8 = 2 };  // TFLITE_XNNPACK_DELEGATE_FLAG_QS8, _QU8

struct ed_xnnpack {
  TfLiteDelegate *delegate;
  void (*destroy)(TfLiteDelegate *);
};

// The loaded file that holds the runtime: Python loads it so that others don't see its symbols.
static void *runtime_of(const TfLiteContext *context) {
  void *address;
  memcpy(&address, &context->GetExecutionPlan, sizeof address);
  Dl_info file;
  return dladdr(address, &file) ? dlopen(file.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
}

ed_xnnpack *ed_xnnpack_open(const TfLiteContext *context, int threads, char *error, size_t error_bytes) {
  xnnpack_options (*defaults)(void) = NULL;
  TfLiteDelegate *(*create)(const xnnpack_options *) = NULL;
  void *runtime = runtime_of(context);
  void *symbols[3] = {0};
  if (!runtime) runtime = dlopen(NULL, RTLD_LAZY);
  if (runtime) {
    symbols[0] = dlsym(runtime, "TfLiteXNNPackDelegateOptionsDefault");
    symbols[1] = dlsym(runtime, "TfLiteXNNPackDelegateCreate");
    symbols[2] = dlsym(runtime, "TfLiteXNNPackDelegateDelete");
    dlclose(runtime);  // the count only
  }
  if (!symbols[0] || !symbols[1] || !symbols[2]) {
    ed_reject(error, error_bytes,
              "the plan switches XNNPACK on, and this runtime does not export TfLiteXNNPackDelegateCreate: plan for it"
              " with --xnnpack default");
    return NULL;
  }
  ed_xnnpack *xnnpack = calloc(1, sizeof *xnnpack);
  if (!xnnpack) return NULL;
  memcpy(&defaults, &symbols[0], sizeof defaults);
  memcpy(&create, &symbols[1], sizeof create);
  memcpy(&xnnpack->destroy, &symbols[2], sizeof xnnpack->destroy);
  xnnpack_options options = defaults();
  options.num_threads = threads;
  options.flags |= QS8 | QU8;
  xnnpack->delegate = create(&options);
  if (xnnpack->delegate) return xnnpack;
  free(xnnpack);
  ed_reject(error, error_bytes, "the runtime made no XNNPACK delegate");
  return NULL;
}

TfLiteStatus ed_xnnpack_claim(ed_xnnpack *xnnpack, TfLiteContext *context) {
  return xnnpack->delegate->Prepare(context, xnnpack->delegate);
}

void ed_xnnpack_close(ed_xnnpack *xnnpack) {
  if (!xnnpack) return;
  xnnpack->destroy(xnnpack->delegate);
  free(xnnpack);
}
