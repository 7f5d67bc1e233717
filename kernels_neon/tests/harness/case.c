// SPDX-License-Identifier: Apache-2.0
#include "case.h"

#include <stdlib.h>
#include <string.h>

#include "../check.h"

size_t ed_type_bytes(TfLiteType type) {
  switch (type) {
    case kTfLiteFloat32:
    case kTfLiteInt32:
      return 4;
    case kTfLiteInt64:
      return 8;
    case kTfLiteInt16:
      return 2;
    default:
      return 1;
  }
}

size_t ed_elements(const ed_tensor *tensor) {
  size_t elements = 1;
  for (int i = 0; i < tensor->rank; i++) elements *= (size_t)tensor->dims[i];
  return elements;
}

size_t ed_tensor_bytes(const ed_tensor *tensor) {
  return ed_elements(tensor) * ed_type_bytes(tensor->type);
}

void *ed_own(ed_case *made, size_t bytes) {
  CHECK(made->owned_count < (int)(sizeof made->owned / sizeof *made->owned));
  void *memory = calloc(1, bytes + 1);
  CHECK(memory);
  return made->owned[made->owned_count++] = memory;
}

static ed_tensor *set(ed_tensor *tensor, TfLiteType type, int rank, const int32_t *dims) {
  *tensor = (ed_tensor){.type = type, .rank = rank};
  if (rank) memcpy(tensor->dims, dims, (size_t)rank * sizeof *dims);
  return tensor;
}

ed_tensor *ed_add_input(ed_case *made, TfLiteType type, int rank, const int32_t *dims) {
  CHECK(made->op.inputs_count < ED_MAX_OPERANDS);
  return set(&made->inputs[made->op.inputs_count++], type, rank, dims);
}

ed_tensor *ed_add_output(ed_case *made, TfLiteType type, int rank, const int32_t *dims) {
  CHECK(made->op.outputs_count < ED_MAX_OPERANDS);
  return set(&made->outputs[made->op.outputs_count++], type, rank, dims);
}

ed_tensor *ed_add_host(ed_case *made, const char *name, int32_t builtin, TfLiteType type, int rank,
                       const int32_t *dims) {
  made->host = (ed_host){builtin, made->host_params, &made->between};
  made->host_name = name;
  made->op.host = &made->host;
  return set(&made->between, type, rank, dims);
}

void ed_quantise(ed_case *made, ed_tensor *tensor, float scale, int32_t zero_point) {
  TfLiteFloatArray *scales = ed_own(made, sizeof *scales + sizeof scale);
  TfLiteIntArray *zero_points = ed_own(made, sizeof *zero_points + sizeof zero_point);
  TfLiteAffineQuantization *quantization = ed_own(made, sizeof *quantization);
  scales->size = zero_points->size = 1;
  scales->data[0] = tensor->scale = scale;
  zero_points->data[0] = tensor->zero_point = zero_point;
  *quantization = (TfLiteAffineQuantization){.scale = scales, .zero_point = zero_points};
  tensor->quantization = quantization;
}

void ed_quantise_any(ed_case *made, ed_random *random, ed_tensor *tensor) {
  if (tensor->type != kTfLiteInt8 && tensor->type != kTfLiteUInt8) return;
  float scale = ed_pick_scale(random);
  ed_quantise(made, tensor, scale, ed_pick_zero_point(random, tensor->type));
}

void ed_add_constant(ed_case *made, int count, const int32_t *values) {
  int32_t *memory = ed_own(made, sizeof *values * (size_t)count);
  memcpy(memory, values, sizeof *values * (size_t)count);
  ed_tensor *tensor = ed_add_input(made, kTfLiteInt32, 1, &(int32_t){count});
  tensor->data = made->fed[tensor - made->inputs] = memory;
}

static float real(ed_random *random, int kind) {
  float unit = (float)(int32_t)ed_next(random) / 2147483648.0f;  // -1..1
  if (kind == 0) return unit * 8;
  if (kind == 1) return (float)(int)(unit * 256) * 0.5f;  // ties
  return unit * (ed_chance(random, 10) ? 1e30f : 1000);
}

static void fill(ed_random *random, const ed_tensor *tensor, void *memory) {
  size_t count = ed_elements(tensor);
  int kind = ed_pick(random, 0, 4);
  if (tensor->type == kTfLiteFloat32) {
    for (size_t i = 0; i < count; i++) ((float *)memory)[i] = real(random, kind % 3);
    return;
  }
  uint8_t *bytes = memory;
  int base = (int)(ed_next(random) & 0xff), spread = 1 + (int)(ed_next(random) & 15);
  for (size_t i = 0; i < count * ed_type_bytes(tensor->type); i++) {
    uint64_t any = ed_next(random);
    bool is_edge = kind == 1 || (kind == 2 && any >> 60 == 0);
    bytes[i] = is_edge ? (uint8_t)(any & 1 ? 0x7f : 0x80) : (uint8_t)any;
    if (is_edge && tensor->type == kTfLiteUInt8) bytes[i] ^= 0x80;
    if (kind == 3) bytes[i] = (uint8_t)(base + (int)(any % (uint64_t)spread));  // nearly all the same
    if (tensor->type == kTfLiteBool) bytes[i] &= 1;
  }
}

void ed_fill_constant(ed_case *made, ed_random *random) {
  int last = made->op.inputs_count - 1;
  void *memory = ed_own(made, ed_tensor_bytes(&made->inputs[last]));
  fill(random, &made->inputs[last], memory);
  made->inputs[last].data = made->fed[last] = memory;
}

void ed_custom_options(ed_case *made, const char *custom_name, const uint8_t *options, size_t bytes) {
  made->op.custom_name = custom_name;
  made->op.params = memcpy(ed_own(made, bytes), options, bytes);
  made->op.params_bytes = bytes;
  char hex[800];
  CHECK(2 * bytes < sizeof hex);
  for (size_t i = 0; i < bytes; i++) snprintf(hex + 2 * i, 3, "%02x", options[i]);
  ED_OPTIONS(made, "{\"custom_options\": \"%s\"}", hex);
}

void ed_case_make(const ed_kind *kind, ed_random *random, ed_case *made) {
  *made = (ed_case){.op = {.builtin = kind->builtin, .version = 1}, .name = kind->name, .options = "{}"};
  made->op.inputs = made->inputs;
  made->op.outputs = made->outputs;
  made->op.params = made->params;
  kind->make(kind, random, made);
  for (int i = 0; i < made->op.inputs_count; i++) {
    if (made->fed[i] || made->inputs[i].type == kTfLiteNoType) continue;
    made->fed[i] = ed_own(made, ed_tensor_bytes(&made->inputs[i]));
    fill(random, &made->inputs[i], made->fed[i]);
  }
}

void ed_case_settle(ed_case *copy, const ed_case *made) {
  if (made->op.params == made->params) copy->op.params = copy->params;
  copy->op.inputs = copy->inputs;
  copy->op.outputs = copy->outputs;
  if (!made->op.host) return;
  copy->op.host = &copy->host;
  copy->host.params = copy->host_params;
  copy->host.result = &copy->between;
}

void ed_case_free(ed_case *done) {
  for (int i = 0; i < done->owned_count; i++) free(done->owned[i]);
  done->owned_count = 0;
}
