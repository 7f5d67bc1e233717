// SPDX-License-Identifier: Apache-2.0
// A stand-in for a vendor's external delegate, for tests only: it runs the ops that it claims by the runtime's own
// kernels, so that a model's outputs stay what they are.
//   log=FILE        a line for each Prepare: the number of the delegate, then the nodes that it sees
//   behave=WHAT     nothing: claims none; first: only the first that it sees; twice: half of them in each of two calls;
//                   greedy: all nodes of the graph, seen or not; fail: says so after its claim
//   flags=N         TfLiteDelegateFlags; 1 if not given
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/tflite/abi.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT TfLiteDelegate *tflite_plugin_create_delegate(char **keys, char **values, size_t count,
                                                     void (*report)(const char *));
EXPORT void tflite_plugin_destroy_delegate(TfLiteDelegate *delegate);

typedef struct {
  TfLiteDelegate tflite;
  int number;
  char log[512], behave[16];
} stock;

// --- the delegate's node ---------------------------------------------

typedef struct {
  int tensor;
  void *data;
} own;

typedef struct {
  const TfLiteDelegateParams *params;  // the runtime keeps them as long as the node
  int own_count;
  own *owns;
  TfLiteStatus (*get_node)(TfLiteContext *, int, TfLiteNode **, TfLiteRegistration **);
} part;

static void *init(TfLiteContext *context, const char *buffer, size_t length) {
  (void)length;
  part *p = calloc(1, sizeof *p);
  p->params = (const void *)buffer;
  p->get_node = context->GetNodeAndRegistration;  // it can be called at any time, if one has it
  return p;
}

static void release(TfLiteContext *context, void *data) {
  (void)context;
  part *p = data;
  for (int i = 0; i < p->own_count; i++) free(p->owns[i].data);
  free(p->owns);
  free(p);
}

// A tensor that the runtime gives no memory: made inside the node, or a kernel's temporary one.
static void own_tensor(TfLiteContext *context, part *p, int tensor) {
  TfLiteAllocationType kind = tensor < 0 ? kTfLiteMmapRo : context->tensors[tensor].allocation_type;
  if (kind != kTfLiteArenaRw && kind != kTfLiteArenaRwPersistent) return;
  const TfLiteIntArray *left = p->params->output_tensors;
  for (int i = 0; i < left->size; i++)
    if (left->data[i] == tensor) return;
  p->owns = realloc(p->owns, (size_t)(p->own_count + 1) * sizeof *p->owns);
  p->owns[p->own_count++] = (own){tensor, aligned_alloc(64, (context->tensors[tensor].bytes + 64) / 64 * 64)};
}

static TfLiteStatus prepare(TfLiteContext *context, TfLiteNode *node) {
  part *p = node->user_data;
  for (int i = 0; i < p->own_count; i++) free(p->owns[i].data);
  p->own_count = 0;
  for (int i = 0; i < p->params->nodes_to_replace->size; i++) {
    TfLiteNode *op;
    TfLiteRegistration *kernel;
    if (p->get_node(context, p->params->nodes_to_replace->data[i], &op, &kernel) != kTfLiteOk) return kTfLiteError;
    TfLiteStatus status = kernel->prepare ? kernel->prepare(context, op) : kTfLiteOk;
    if (status != kTfLiteOk) return status;
    for (int k = 0; k < op->outputs->size; k++) own_tensor(context, p, op->outputs->data[k]);
    for (int k = 0; k < op->temporaries->size; k++) own_tensor(context, p, op->temporaries->data[k]);
  }
  return kTfLiteOk;
}

static TfLiteStatus invoke(TfLiteContext *context, TfLiteNode *node) {
  part *p = node->user_data;
  TfLiteStatus status = kTfLiteOk;
  for (int i = 0; i < p->own_count; i++) context->tensors[p->owns[i].tensor].data = p->owns[i].data;
  for (int i = 0; i < p->params->nodes_to_replace->size && status == kTfLiteOk; i++) {
    TfLiteNode *op;
    TfLiteRegistration *kernel;
    status = p->get_node(context, p->params->nodes_to_replace->data[i], &op, &kernel);
    if (status == kTfLiteOk) status = kernel->invoke(context, op);
  }
  for (int i = 0; i < p->own_count; i++) context->tensors[p->owns[i].tensor].data = NULL;
  return status;
}

// --- the delegate ----------------------------------------------------

static void write_log(const stock *s, const TfLiteIntArray *nodes) {
  FILE *log = *s->log ? fopen(s->log, "a") : NULL;
  if (!log) return;
  fprintf(log, "%d:", s->number);
  for (int i = 0; i < nodes->size; i++) fprintf(log, " %d", nodes->data[i]);
  fprintf(log, "\n");
  fclose(log);
}

static TfLiteStatus claim(TfLiteContext *context, stock *s, const int *nodes, int count) {
  TfLiteRegistration registration;
  memset(&registration, 0xab, sizeof registration);  // as old delegates leave what they do not know
  registration.init = init;
  registration.free = release;
  registration.prepare = prepare;
  registration.invoke = invoke;
  registration.profiling_string = NULL;
  registration.builtin_code = kTfLiteBuiltinDelegate;
  registration.custom_name = "StandIn";
  registration.version = 1;
  registration.registration_external = NULL;
  TfLiteIntArray *list = malloc(sizeof *list + (size_t)count * sizeof(int));
  list->size = count;
  memcpy(list->data, nodes, (size_t)count * sizeof(int));
  TfLiteStatus status = context->ReplaceNodeSubsetsWithDelegateKernels(context, registration, list, &s->tflite);
  free(list);
  return status;
}

static TfLiteStatus claim_all(TfLiteContext *context, TfLiteDelegate *delegate) {
  stock *s = delegate->data_;
  TfLiteIntArray *seen;
  if (context->GetExecutionPlan(context, &seen) != kTfLiteOk) return kTfLiteError;
  write_log(s, seen);
  int count = seen->size, nodes[4096];
  memcpy(nodes, seen->data, (size_t)count * sizeof *nodes);
  if (!strcmp(s->behave, "nothing")) return kTfLiteOk;
  if (!strcmp(s->behave, "first")) return claim(context, s, nodes, count > 0);
  if (!strcmp(s->behave, "twice")) {
    TfLiteStatus status = claim(context, s, nodes, count / 2);
    return status == kTfLiteOk ? claim(context, s, nodes + count / 2, count - count / 2) : status;
  }
  if (!strcmp(s->behave, "greedy")) {
    TfLiteNode *node;
    TfLiteRegistration *registration;
    for (count = 0; count < 4096; count++) {
      if (context->GetNodeAndRegistration(context, count, &node, &registration) != kTfLiteOk) break;
      nodes[count] = count;
    }
  }
  TfLiteStatus status = claim(context, s, nodes, count);
  return !strcmp(s->behave, "fail") ? kTfLiteError : status;
}

TfLiteDelegate *tflite_plugin_create_delegate(char **keys, char **values, size_t count, void (*report)(const char *)) {
  static int made;
  stock *s = calloc(1, sizeof *s);
  s->number = made++;
  s->tflite = (TfLiteDelegate){.data_ = s, .Prepare = claim_all, .flags = kTfLiteDelegateFlagsAllowDynamicTensors};
  for (size_t i = 0; i < count; i++) {
    if (!strcmp(keys[i], "log")) {
      snprintf(s->log, sizeof s->log, "%s", values[i]);
    } else if (!strcmp(keys[i], "behave")) {
      snprintf(s->behave, sizeof s->behave, "%s", values[i]);
    } else if (!strcmp(keys[i], "flags")) {
      s->tflite.flags = atoi(values[i]);
    } else {
      report("stand-in: unknown option");
      free(s);
      return NULL;
    }
  }
  return &s->tflite;
}

void tflite_plugin_destroy_delegate(TfLiteDelegate *delegate) {
  free(delegate->data_);
}
