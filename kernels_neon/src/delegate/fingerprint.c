// SPDX-License-Identifier: Apache-2.0
#include "fingerprint.h"

#include <stdlib.h>
#include <string.h>

static void add(ed_sha256 *hash, int32_t value) {
  uint32_t bits = (uint32_t)value;
  uint8_t bytes[4] = {(uint8_t)bits, (uint8_t)(bits >> 8), (uint8_t)(bits >> 16), (uint8_t)(bits >> 24)};
  ed_sha256_add(hash, bytes, sizeof bytes);
}

static void add_all(ed_sha256 *hash, const TfLiteIntArray *values) {
  add(hash, values ? values->size : 0);
  for (int i = 0; values && i < values->size; i++) add(hash, values->data[i]);
}

static void mark(bool *is_referenced, size_t tensors, const TfLiteIntArray *ids) {
  for (int i = 0; ids && i < ids->size; i++)
    if (ids->data[i] >= 0 && (size_t)ids->data[i] < tensors) is_referenced[ids->data[i]] = true;
}

bool ed_fingerprint(TfLiteContext *context, int ops, uint8_t digest[ED_SHA256_BYTES]) {
  size_t tensors = context->tensors_size;
  bool *is_referenced = calloc(tensors + 1, sizeof *is_referenced);
  if (!is_referenced) return false;
  ed_sha256 hash;
  ed_sha256_begin(&hash);
  add(&hash, ops);
  for (int i = 0; i < ops; i++) {
    TfLiteNode *node;
    TfLiteRegistration *registration;
    if (context->GetNodeAndRegistration(context, i, &node, &registration) != kTfLiteOk) {
      free(is_referenced);
      return false;
    }
    bool is_custom = registration->builtin_code == kTfLiteBuiltinCustom && registration->custom_name;
    const char *name = is_custom ? registration->custom_name : "";
    add(&hash, registration->builtin_code);
    add(&hash, (int32_t)strlen(name));
    ed_sha256_add(&hash, name, strlen(name));
    add_all(&hash, node->inputs);
    add_all(&hash, node->outputs);
    mark(is_referenced, tensors, node->inputs);
    mark(is_referenced, tensors, node->outputs);
  }
  for (size_t t = 0; t < tensors; t++) {
    if (!is_referenced[t]) continue;
    add(&hash, (int32_t)t);
    add(&hash, (int32_t)context->tensors[t].type);
    add_all(&hash, context->tensors[t].dims);
  }
  free(is_referenced);
  ed_sha256_end(&hash, digest);
  return true;
}
