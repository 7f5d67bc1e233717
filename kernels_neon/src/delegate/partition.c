// SPDX-License-Identifier: Apache-2.0
#include "partition.h"

#include <stdio.h>
#include <stdlib.h>

#include "../kernels/kernel.h"
#include "../kernels/reject.h"
#include "operand.h"
#include "placement.h"
#include "steps.h"

// Bytes that a thread reads and writes in about the time that it takes to wake it. An estimate: 64 KiB at 10 GB/s are
// 6.5 us.
enum { BYTES_PER_THREAD = 65536 };

bool ed_partition_check(const ed_delegate *delegate, uint32_t partition, char *error, size_t error_bytes) {
  const ed_plan *plan = &delegate->plan;
  uint32_t first, count = ed_plan_ops(plan, partition, &first);
  for (const ed_plan_op *op = plan->ops + first; op < plan->ops + first + count; op++) {
    if (ed_is_folded(op)) continue;
    const char *backend = ed_plan_text(plan, plan->backends[op->backend].name);
    const char *layout = ed_plan_text(plan, op->layout), *kernel = ed_plan_text(plan, op->kernel);
    const char *variant = op->variant == ED_NONE ? "scalar" : ed_plan_text(plan, op->variant);
    if (!strcmp(backend, "rknn"))
      return ed_reject(error, error_bytes,
                       "op %u:%u is planned on rknn, which this library does not run yet: plan with --npu none",
                       op->subgraph, op->index);
    if (strcmp(backend, "neon"))
      return ed_reject(error, error_bytes, "op %u:%u is planned on %s, which this library does not run", op->subgraph,
                       op->index, backend);
    if (strcmp(layout, "NHWC"))
      return ed_reject(error, error_bytes, "op %u:%u is planned in layout %s; this library runs NHWC", op->subgraph,
                       op->index, layout);
    if (!ed_find_kernel(kernel, variant))
      return ed_reject(
          error, error_bytes,
          "op %u:%u needs kernel %s, which this library has not: use the library that the plan was made for",
          op->subgraph, op->index, kernel);
  }
  return true;
}

typedef struct {
  ed_delegate *delegate;
  uint32_t number;  // the partition's position in the plan
  ed_steps steps;
  char error[ED_LINE];  // why it cannot run; empty if it can
} partition;

static void free_partition(partition *self) {
  ed_steps_free(&self->steps);
  free(self);
}

static void *init(TfLiteContext *context, const char *buffer, size_t length) {
  (void)length;
  const TfLiteDelegateParams *params = (const void *)buffer;
  partition *self = calloc(1, sizeof *self);
  if (!self) return NULL;
  self->delegate = ed_delegate_of(params->delegate);
  self->number = self->delegate->claiming;
  if (ed_steps_find(&self->steps, context, params, &self->delegate->plan, self->number, self->error, ED_LINE)) {
    ed_claimed *claimed = &self->delegate->claimed[self->number];
    if (self->steps.internal_bytes > claimed->internal_bytes) claimed->internal_bytes = self->steps.internal_bytes;
  }
  return self;
}

static void release(TfLiteContext *context, void *user_data) {
  (void)context;
  if (user_data) free_partition(user_data);
}

static bool prepare_step(TfLiteContext *context, ed_steps *steps, ed_step *step, char *error) {
  const int count = step->inputs_count + step->outputs_count;
  const bool has_host = step->kernel->host != ED_NO_HOST;
  const ed_operand between = {.home = has_host ? ED_INSIDE : ED_ABSENT, .tensor = step->between};
  ed_tensor *tensors = calloc((size_t)count + 1, sizeof *tensors);
  if (!tensors) return ed_reject(error, ED_LINE, "no memory");
  char reason[ED_LINE] = "";
  for (int i = 0; i <= count; i++) {
    const ed_operand *operand = i < count ? &step->operands[i] : &between;
    if (ed_operand_describe(context, steps, operand, &tensors[i], reason, sizeof reason)) continue;
    free(tensors);
    return ed_reject(error, ED_LINE, "op %u:%u: tensor %d is not one to compute with: %s", step->op->subgraph,
                     step->op->index, operand->tensor, reason);
  }
  ed_op op = step->described;
  ed_host host = step->host;
  op.inputs = tensors;
  op.outputs = tensors + step->inputs_count;
  host.result = &tensors[count];
  op.host = has_host ? &host : NULL;
  ed_step_forget(step);
  step->is_prepared = step->kernel->prepare(&op, &step->job, reason, sizeof reason);
  free(tensors);
  if (step->is_prepared) return true;
  return ed_reject(error, ED_LINE, "op %u:%u, kernel %s (%s): %s", step->op->subgraph, step->op->index,
                   step->kernel->name, step->kernel->variant, reason);
}

static bool prepare_all(TfLiteContext *context, partition *self, char *error) {
  if (*self->error) return ed_reject(error, ED_LINE, "%s", self->error);
  ed_steps *steps = &self->steps;
  if (!ed_steps_same_shapes(steps, context, error, ED_LINE)) return false;
  if (!ed_steps_unpack(steps, context, error, ED_LINE)) return false;
  size_t scratch = 0;
  for (size_t i = 0; i < steps->count; i++) {
    if (!prepare_step(context, steps, &steps->steps[i], error)) return false;
    if (steps->steps[i].job.scratch_bytes > scratch) scratch = steps->steps[i].job.scratch_bytes;
  }
  int threads = ed_delegate_threads(self->delegate, context);
  if (!ed_workshop_reserve(&self->delegate->shop, threads, steps->internal_bytes, scratch))
    return ed_reject(error, ED_LINE, "no memory for %zu bytes inside the partition", steps->internal_bytes);
  return true;
}

static TfLiteStatus prepare(TfLiteContext *context, TfLiteNode *node) {
  partition *self = node->user_data;
  char error[ED_LINE] = "", line[ED_LINE + 32];
  if (!self) return ed_fail(context, "no memory");
  if (prepare_all(context, self, error)) return kTfLiteOk;
  snprintf(line, sizeof line, "partition %u: %s", self->delegate->plan.partitions[self->number].id, error);
  return ed_fail(context, line);
}

typedef struct {
  const ed_step *step;
  const void **inputs;
  void **outputs;
  ed_workshop *shop;
} turn;

static void work(void *argument, size_t begin, size_t end, int thread) {
  const turn *t = argument;
  void *scratch = t->shop->scratch ? t->shop->scratch + (size_t)thread * t->shop->scratch_each : NULL;
  t->step->kernel->run(&t->step->job, t->inputs, t->outputs, begin, end, scratch);
}

static int threads_for(const ed_job *job) {
  size_t bytes;
  if (__builtin_mul_overflow(job->units, job->unit_bytes, &bytes)) return ED_MAX_THREADS;
  size_t threads = bytes / BYTES_PER_THREAD;
  return threads > ED_MAX_THREADS ? ED_MAX_THREADS : (int)threads;
}

static bool is_all_there(const TfLiteContext *context, const ed_steps *steps) {
  for (const ed_step *step = steps->steps; step < steps->steps + steps->count; step++) {
    for (int k = 0; k < step->inputs_count + step->outputs_count; k++)
      if (!ed_operand_is_there(context, &step->operands[k])) return false;
  }
  return true;
}

static TfLiteStatus invoke(TfLiteContext *context, TfLiteNode *node) {
  partition *self = node->user_data;
  ed_workshop *shop = &self->delegate->shop;
  if (!is_all_there(context, &self->steps)) return ed_fail(context, "a tensor has no memory, or less than it needs");
  pthread_mutex_lock(&shop->running);
  ed_steps_copy_out(&self->steps, context);
  for (size_t i = 0; i < self->steps.count; i++) {
    const ed_step *step = &self->steps.steps[i];
    for (int k = 0; k < step->inputs_count + step->outputs_count; k++)
      step->addresses[k] = ed_operand_address(context, &self->steps, &step->operands[k], shop->tensors);
    turn t = {step, (const void **)step->addresses, step->addresses + step->inputs_count, shop};
    ed_threads_run(shop->threads, threads_for(&step->job), step->job.units, work, &t);
  }
  pthread_mutex_unlock(&shop->running);
  return kTfLiteOk;
}

TfLiteRegistration ed_partition_registration(void) {
  return (TfLiteRegistration){
      .init = init,
      .free = release,
      .prepare = prepare,
      .invoke = invoke,
      .builtin_code = kTfLiteBuiltinDelegate,
      .custom_name = "edgedeploy",
      .version = 1,
  };
}
