// SPDX-License-Identifier: Apache-2.0
#include "steps.h"

#include <stdlib.h>
#include <string.h>

#include "../kernels/reject.h"
#include "placement.h"
#include "unpack.h"

static bool contains(const TfLiteIntArray *ids, int id) {
  for (int i = 0; ids && i < ids->size; i++)
    if (ids->data[i] == id) return true;
  return false;
}

// --- finding ---------------------------------------------------------

typedef struct {
  ed_steps *steps;
  TfLiteContext *context;
  const TfLiteDelegateParams *params;
  const ed_plan *plan;
  char *error;
  size_t error_bytes;
} search;

static bool add_step(const search *s, const ed_plan_op *op, const TfLiteNode *node, const TfLiteRegistration *made) {
  ed_step *step = &s->steps->steps[s->steps->count++];
  bool is_custom = made->builtin_code == kTfLiteBuiltinCustom;
  const char *variant = op->variant == ED_NONE ? "scalar" : ed_plan_text(s->plan, op->variant);
  *step = (ed_step){
      .op = op,
      .kernel = ed_find_kernel(ed_plan_text(s->plan, op->kernel), variant),
      .described = {.builtin = made->builtin_code,
                    .custom_name = is_custom ? made->custom_name : NULL,
                    .params = is_custom ? node->custom_initial_data : node->builtin_data,
                    .params_bytes = is_custom ? (size_t)node->custom_initial_data_size : 0,
                    .version = made->version,
                    .inputs_count = node->inputs->size,
                    .outputs_count = node->outputs->size},
      .inputs_count = node->inputs->size,
      .outputs_count = node->outputs->size,
  };
  size_t count = (size_t)node->inputs->size + (size_t)node->outputs->size;
  step->operands = calloc(count + 1, sizeof *step->operands);
  step->addresses = calloc(count + 1, sizeof *step->addresses);
  if (!step->operands || !step->addresses) return ed_reject(s->error, s->error_bytes, "no memory");
  for (int i = 0; i < step->inputs_count; i++) step->operands[i].tensor = node->inputs->data[i];
  for (int i = 0; i < step->outputs_count; i++) step->operands[step->inputs_count + i].tensor = node->outputs->data[i];
  for (size_t i = 0; i < count; i++) step->operands[i].home = step->operands[i].tensor < 0 ? ED_ABSENT : ED_OUTSIDE;
  return true;
}

static bool add_unpacked(const search *s, const ed_plan_op *op, const TfLiteNode *node,
                         const TfLiteRegistration *made) {
  if (node->inputs->size != 1 || node->outputs->size != 1 || node->inputs->data[0] < 0 || node->outputs->data[0] < 0)
    return ed_reject(s->error, s->error_bytes, "op %u:%u unpacks no constant", op->subgraph, op->index);
  s->steps->unpacked[s->steps->unpacked_count++] = (ed_unpacked){
      .op = op,
      .builtin = made->builtin_code,
      .from = node->inputs->data[0],
      .to = node->outputs->data[0],
      .is_output = contains(s->params->output_tensors, node->outputs->data[0]),
  };
  return true;
}

static bool add_ops(const search *s, uint32_t partition) {
  uint32_t first, count = ed_plan_ops(s->plan, partition, &first);
  s->steps->steps = calloc(count + 1u, sizeof *s->steps->steps);
  s->steps->unpacked = calloc(count + 1u, sizeof *s->steps->unpacked);
  if (!s->steps->steps || !s->steps->unpacked) return ed_reject(s->error, s->error_bytes, "no memory");
  for (const ed_plan_op *op = s->plan->ops + first; op < s->plan->ops + first + count; op++) {
    if (!contains(s->params->nodes_to_replace, (int)op->index)) continue;
    TfLiteNode *node;
    TfLiteRegistration *made;
    if (s->context->GetNodeAndRegistration(s->context, (int)op->index, &node, &made) != kTfLiteOk)
      return ed_reject(s->error, s->error_bytes, "the runtime does not show op %u:%u", op->subgraph, op->index);
    if (!(ed_is_folded(op) ? add_unpacked : add_step)(s, op, node, made)) return false;
  }
  return true;
}

static bool reads(const ed_step *step, int tensor) {
  for (int i = 0; i < step->inputs_count; i++)
    if (step->operands[i].tensor == tensor) return true;
  return false;
}

// The step whose only result nobody but `reader` reads, as its first input.
static ed_step *host_of(const search *s, const ed_step *reader) {
  ed_step *host = NULL;
  int between = reader->inputs_count ? reader->operands[0].tensor : -1;
  if (between < 0 || contains(s->params->output_tensors, between)) return NULL;
  for (ed_step *step = s->steps->steps; step < s->steps->steps + s->steps->count; step++) {
    bool makes = step < reader && step->described.builtin == reader->kernel->host && step->inputs_count == 1 &&
                 step->outputs_count == 1 && step->operands[1].tensor == between;
    if (makes) host = step;
    if (step != reader && reads(step, between)) return NULL;
  }
  for (int i = 1; i < reader->inputs_count; i++)
    if (reader->operands[i].tensor == between) return NULL;
  return host;
}

// A kernel of two ops takes the one before in: what that reads is read by this step, and it is no step any more.
static bool take_hosts_in(const search *s) {
  ed_steps *steps = s->steps;
  for (size_t i = 0; i < steps->count; i++) {
    ed_step *step = &steps->steps[i], *host;
    if (!step->kernel || step->kernel->host == ED_NO_HOST) continue;
    if (!(host = host_of(s, step)))
      return ed_reject(s->error, s->error_bytes, "op %u:%u: kernel %s also computes the op before, which is not here",
                       step->op->subgraph, step->op->index, step->kernel->name);
    step->host = (ed_host){.builtin = host->described.builtin, .params = host->described.params};
    step->between = step->operands[0].tensor;
    step->operands[0] = host->operands[0];
    free(host->operands);
    free(host->addresses);
    steps->count--;
    memmove(host, host + 1, (size_t)(steps->steps + steps->count - host) * sizeof *host);
    i--;
  }
  return true;
}

static void use_unpacked(ed_steps *steps) {
  for (size_t u = 0; u < steps->unpacked_count; u++) {
    ed_unpacked *unpacked = &steps->unpacked[u];
    for (size_t i = 0; i < steps->count; i++)
      for (int k = 0; k < steps->steps[i].inputs_count; k++) {
        ed_operand *operand = &steps->steps[i].operands[k];
        if (operand->home != ED_OUTSIDE || operand->tensor != unpacked->to) continue;
        *operand = (ed_operand){ED_UNPACKED, unpacked->to, u};
        unpacked->is_read = true;
      }
  }
}

// Gives the operands that are `tensor` a place inside, and the last step that has one.
static size_t put_inside(ed_steps *steps, int tensor, size_t offset) {
  size_t last = 0;
  for (size_t i = 0; i < steps->count; i++) {
    const ed_step *step = &steps->steps[i];
    for (int k = 0; k < step->inputs_count + step->outputs_count; k++) {
      if (step->operands[k].tensor != tensor) continue;
      step->operands[k].home = ED_INSIDE;
      step->operands[k].at = offset;
      last = i;
    }
  }
  return last;
}

static bool place_inside(const search *s) {
  ed_steps *steps = s->steps;
  size_t most = 0, count = 0;
  for (size_t i = 0; i < steps->count; i++) most += (size_t)steps->steps[i].outputs_count;
  ed_block *blocks = calloc(most + 1, sizeof *blocks);
  if (!blocks) return ed_reject(s->error, s->error_bytes, "no memory");
  for (size_t i = 0; i < steps->count; i++) {
    const ed_step *step = &steps->steps[i];
    for (int k = 0; k < step->outputs_count; k++) {
      int tensor = step->operands[step->inputs_count + k].tensor;
      if (tensor < 0 || contains(s->params->output_tensors, tensor)) continue;
      if (s->context->tensors[tensor].is_variable) continue;  // it keeps its value until the next run
      size_t last = put_inside(steps, tensor, 0);
      blocks[count++] =
          (ed_block){.tensor = tensor, .bytes = s->context->tensors[tensor].bytes, .first = i, .last = last};
    }
  }
  bool has_memory = ed_place(blocks, count, &steps->internal_bytes);
  for (size_t i = 0; i < count; i++) put_inside(steps, blocks[i].tensor, blocks[i].offset);
  free(blocks);
  return has_memory || ed_reject(s->error, s->error_bytes, "no memory");
}

static bool note_shape(const search *s, int id) {
  if (id < 0) return true;
  const TfLiteIntArray *dims = s->context->tensors[id].dims;
  if (dims->size > ED_MAX_RANK)
    return ed_reject(s->error, s->error_bytes, "tensor %d has more than %d dimensions", id, ED_MAX_RANK);
  ed_shape *shape = &s->steps->shapes[s->steps->shapes_count++];
  *shape = (ed_shape){.tensor = id, .rank = dims->size};
  for (int d = 0; d < shape->rank; d++) shape->dims[d] = dims->data[d];
  return true;
}

// Of everything, not only of what enters: a program may give any tensor another shape, and what is inside has its place
// already.
static bool note_shapes(const search *s) {
  ed_steps *steps = s->steps;
  size_t most = 2 * steps->unpacked_count;
  for (size_t i = 0; i < steps->count; i++)
    most += (size_t)steps->steps[i].inputs_count + (size_t)steps->steps[i].outputs_count + 1;
  steps->shapes = calloc(most + 1, sizeof *steps->shapes);
  if (!steps->shapes) return ed_reject(s->error, s->error_bytes, "no memory");
  for (size_t i = 0; i < steps->count; i++) {
    const ed_step *step = &steps->steps[i];
    for (int k = 0; k < step->inputs_count + step->outputs_count; k++)
      if (!note_shape(s, step->operands[k].tensor)) return false;
    if (step->kernel->host != ED_NO_HOST && !note_shape(s, step->between)) return false;
  }
  for (size_t i = 0; i < steps->unpacked_count; i++)
    if (!note_shape(s, steps->unpacked[i].from) || !note_shape(s, steps->unpacked[i].to)) return false;
  return true;
}

bool ed_steps_find(ed_steps *steps, TfLiteContext *context, const TfLiteDelegateParams *params, const ed_plan *plan,
                   uint32_t partition, char *error, size_t error_bytes) {
  search found = {steps, context, params, plan, error, error_bytes};
  *steps = (ed_steps){0};
  if (!add_ops(&found, partition) || !take_hosts_in(&found)) return false;
  use_unpacked(steps);
  return place_inside(&found) && note_shapes(&found);
}

// --- preparing -------------------------------------------------------

static bool differs(const ed_shape *planned, const TfLiteIntArray *dims) {
  return planned->rank != dims->size ||
         (dims->size && memcmp(planned->dims, dims->data, (size_t)dims->size * sizeof *planned->dims));
}

bool ed_steps_same_shapes(const ed_steps *steps, TfLiteContext *context, char *error, size_t error_bytes) {
  for (size_t i = 0; i < steps->shapes_count; i++) {
    int tensor = steps->shapes[i].tensor;
    if (!differs(&steps->shapes[i], context->tensors[tensor].dims)) continue;
    return ed_reject(error, error_bytes,
                     "tensor %d has another shape than planned: plan again with --input-shape, or keep the shapes",
                     tensor);
  }
  return true;
}

static const void *constant(const ed_steps *steps, const TfLiteContext *context, int tensor) {
  for (size_t i = 0; i < steps->unpacked_count; i++)
    if (steps->unpacked[i].to == tensor) return steps->unpacked[i].data;
  return context->tensors[tensor].allocation_type == kTfLiteMmapRo ? context->tensors[tensor].data : NULL;
}

bool ed_steps_unpack(ed_steps *steps, TfLiteContext *context, char *error, size_t error_bytes) {
  enum { DEQUANTIZE = 6 };
  for (size_t i = 0; i < steps->unpacked_count; i++) {
    ed_unpacked *unpacked = &steps->unpacked[i];
    if (unpacked->data || !(unpacked->is_read || unpacked->is_output)) continue;
    const TfLiteTensor *from = &context->tensors[unpacked->from], *to = &context->tensors[unpacked->to];
    const void *packed = constant(steps, context, unpacked->from);
    char reason[256] = "this library unpacks only what DEQUANTIZE makes of a constant";
    size_t bytes = (to->bytes + ED_ALIGNMENT - 1) / ED_ALIGNMENT * ED_ALIGNMENT;
    unpacked->data = aligned_alloc(ED_ALIGNMENT, bytes ? bytes : ED_ALIGNMENT);
    if (!unpacked->data) return ed_reject(error, error_bytes, "no memory for %zu bytes of constants", to->bytes);
    if (unpacked->builtin == DEQUANTIZE && packed &&
        ed_dequantize(from, packed, to, unpacked->data, reason, sizeof reason))
      continue;
    free(unpacked->data);
    unpacked->data = NULL;
    return ed_reject(error, error_bytes, "op %u:%u: %s", unpacked->op->subgraph, unpacked->op->index, reason);
  }
  return true;
}

void ed_steps_copy_out(const ed_steps *steps, TfLiteContext *context) {
  for (size_t i = 0; i < steps->unpacked_count; i++) {
    const ed_unpacked *unpacked = &steps->unpacked[i];
    TfLiteTensor *to = &context->tensors[unpacked->to];
    if (unpacked->is_output && to->data) memcpy(to->data, unpacked->data, to->bytes);
  }
}

void ed_step_forget(ed_step *step) {
  if (step->is_prepared) free(step->job.state);
  step->job = (ed_job){0};
  step->is_prepared = false;
}

void ed_steps_free(ed_steps *steps) {
  for (size_t i = 0; i < steps->count; i++) {
    ed_step_forget(&steps->steps[i]);
    free(steps->steps[i].operands);
    free(steps->steps[i].addresses);
  }
  for (size_t i = 0; i < steps->unpacked_count; i++) free(steps->unpacked[i].data);
  free(steps->steps);
  free(steps->unpacked);
  free(steps->shapes);
  *steps = (ed_steps){0};
}
