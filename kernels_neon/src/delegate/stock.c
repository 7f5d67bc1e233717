// SPDX-License-Identifier: Apache-2.0
#include "stock.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../kernels/reject.h"

struct ed_stock {
  const char *library;
  TfLiteDelegate *delegate;
  void (*destroy)(TfLiteDelegate *);
};

typedef TfLiteDelegate *(*create_delegate)(char **keys, char **values, size_t count, void (*report)(const char *));

static TfLiteDelegate *create(create_delegate make, const ed_plan *plan, uint32_t backend,
                              void (*report)(const char *)) {
  char **texts = calloc(2u * plan->options_count + 1u, sizeof *texts);
  if (!texts) return NULL;
  size_t count = 0;
  for (uint32_t i = 0; i < plan->options_count; i++) {
    const ed_plan_option *option = &plan->options[i];
    if (option->backend != backend) continue;
    texts[count] = strdup(ed_plan_text(plan, option->key));  // it may write to them
    texts[plan->options_count + count++] = strdup(ed_plan_text(plan, option->value));
  }
  TfLiteDelegate *made = make(texts, texts + plan->options_count, count, report);
  for (size_t i = 0; i < 2u * plan->options_count; i++) free(texts[i]);
  free(texts);
  return made;
}

// The loader's search path decides where a library is, never the plan: a plan may come from anyone, and a path in it
// would run whatever file lies there.
static bool load(ed_stock *stock, const ed_plan *plan, uint32_t backend, void (*report)(const char *), char *error,
                 size_t error_bytes) {
  const char *library = stock->library;
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *said = dlerror();
    return ed_reject(error, error_bytes, "cannot load the delegate of %s: %s",
                     ed_plan_text(plan, plan->backends[backend].name), said ? said : library);
  }
  void *make = dlsym(handle, "tflite_plugin_create_delegate"),
       *destroy = dlsym(handle, "tflite_plugin_destroy_delegate");
  if (!make || !destroy) return ed_reject(error, error_bytes, "%s is no external delegate of TFLite", library);
  create_delegate function;
  memcpy(&function, &make, sizeof function);  // ISO C converts no object pointer to a function pointer
  memcpy(&stock->destroy, &destroy, sizeof stock->destroy);
  stock->delegate = create(function, plan, backend, report);
  if (!stock->delegate) return ed_reject(error, error_bytes, "%s made no delegate", library);
  if (!stock->delegate->Prepare)
    return ed_reject(error, error_bytes, "%s uses the opaque delegate interface, which is not supported", library);
  return true;
}

ed_stock *ed_stock_open(const ed_plan *plan, uint32_t backend, void (*report)(const char *), char *error,
                        size_t error_bytes) {
  ed_stock *stock = calloc(1, sizeof *stock);
  if (!stock) {
    ed_reject(error, error_bytes, "no memory");
    return NULL;
  }
  stock->library = ed_plan_text(plan, plan->backends[backend].library);
  if (!stock->library)
    ed_reject(error, error_bytes, "the plan names no library for %s", ed_plan_text(plan, plan->backends[backend].name));
  else if (!*stock->library || strchr(stock->library, '/'))
    ed_reject(error, error_bytes,
              "the plan's library for %s is '%s', not a bare name: put its folder into LD_LIBRARY_PATH",
              ed_plan_text(plan, plan->backends[backend].name), stock->library);
  else if (load(stock, plan, backend, report, error, error_bytes))
    return stock;
  ed_stock_close(stock);
  return NULL;
}

int64_t ed_stock_flags(const ed_stock *stock) {
  return stock->delegate->flags;
}

void ed_stock_close(ed_stock *stock) {
  if (!stock) return;
  if (stock->delegate) stock->destroy(stock->delegate);
  free(stock);
}

// --- claiming --------------------------------------------------------

// What the context's functions are while a stock delegate claims. A claim is made and over on one thread.
typedef struct {
  const TfLiteIntArray *allowed;
  TfLiteIntArray *seen;  // the plan as it was last given
  TfLiteStatus (*GetExecutionPlan)(TfLiteContext *, TfLiteIntArray **);
  TfLiteStatus (*Replace)(TfLiteContext *, TfLiteRegistration, const TfLiteIntArray *, TfLiteDelegate *);
  TfLiteStatus (*Preview)(TfLiteContext *, const TfLiteIntArray *, TfLiteDelegateParams **, int *);
} view;

static _Thread_local view *now;

static TfLiteIntArray *allowed_of(const TfLiteIntArray *nodes) {
  TfLiteIntArray *kept = malloc(sizeof *kept + (size_t)nodes->size * sizeof *kept->data);
  if (!kept) return NULL;
  kept->size = 0;
  for (int i = 0; i < nodes->size; i++)
    for (int k = 0; k < now->allowed->size; k++)
      if (now->allowed->data[k] == nodes->data[i]) kept->data[kept->size++] = nodes->data[i];
  return kept;
}

static TfLiteStatus get_plan(TfLiteContext *context, TfLiteIntArray **plan) {
  TfLiteIntArray *whole;
  TfLiteStatus status = now->GetExecutionPlan(context, &whole);
  if (status != kTfLiteOk) return status;
  TfLiteIntArray *kept = allowed_of(whole);
  if (!kept) return kTfLiteError;
  free(now->seen);
  now->seen = *plan = kept;
  return kTfLiteOk;
}

static TfLiteStatus replace(TfLiteContext *context, TfLiteRegistration registration, const TfLiteIntArray *nodes,
                            TfLiteDelegate *delegate) {
  // Younger than many delegates, which leave them as they find them on the stack.
  registration.async_kernel = NULL;
  registration.inplace_operator = 0;
  TfLiteIntArray *kept = allowed_of(nodes);
  if (!kept) return kTfLiteError;
  TfLiteStatus status = now->Replace(context, registration, kept, delegate);
  free(kept);
  return status;
}

static TfLiteStatus preview(TfLiteContext *context, const TfLiteIntArray *nodes, TfLiteDelegateParams **partitions,
                            int *count) {
  TfLiteIntArray *kept = allowed_of(nodes);
  if (!kept) return kTfLiteError;
  TfLiteStatus status = now->Preview(context, kept, partitions, count);
  free(kept);
  return status;
}

TfLiteStatus ed_stock_claim(ed_stock *stock, TfLiteContext *context, const TfLiteIntArray *nodes) {
  view mine = {nodes, NULL, context->GetExecutionPlan, context->ReplaceNodeSubsetsWithDelegateKernels,
               context->PreviewDelegatePartitioning};
  view *outer = now;
  now = &mine;
  context->GetExecutionPlan = get_plan;
  context->ReplaceNodeSubsetsWithDelegateKernels = replace;
  context->PreviewDelegatePartitioning = preview;
  TfLiteStatus status = stock->delegate->Prepare(context, stock->delegate);
  context->GetExecutionPlan = mine.GetExecutionPlan;
  context->ReplaceNodeSubsetsWithDelegateKernels = mine.Replace;
  context->PreviewDelegatePartitioning = mine.Preview;
  now = outer;
  free(mine.seen);
  if (status != kTfLiteOk) {
    char line[ED_LINE];
    snprintf(line, sizeof line, "%s failed to claim its ops (status %d)", stock->library, (int)status);
    ed_fail(context, line);
  }
  return status;
}
