// SPDX-License-Identifier: Apache-2.0
#include "operand.h"

#include "../kernels/expect.h"
#include "../kernels/reject.h"

// Input of a branch or of a loop's body: the runtime points it to what the caller has, once this is prepared.
static bool is_lent_later(const TfLiteTensor *tensor) {
  return tensor->allocation_type == kTfLiteCustom && !tensor->data && !tensor->bytes;
}

bool ed_operand_describe(TfLiteContext *context, const ed_steps *steps, const ed_operand *operand, ed_tensor *tensor,
                         char *reason, size_t reason_bytes) {
  *tensor = (ed_tensor){.type = kTfLiteNoType};
  if (operand->home == ED_ABSENT) return true;
  const TfLiteTensor *from = &context->tensors[operand->tensor];
  if (from->dims->size > ED_MAX_RANK)
    return ed_reject(reason, reason_bytes, "it has more than %d dimensions", ED_MAX_RANK);
  tensor->type = from->type;
  tensor->rank = from->dims->size;
  for (int i = 0; i < tensor->rank; i++) tensor->dims[i] = from->dims->data[i];
  tensor->scale = from->params.scale;
  tensor->zero_point = from->params.zero_point;
  if (from->quantization.type == kTfLiteAffineQuantization) tensor->quantization = from->quantization.params;
  if (operand->home == ED_UNPACKED)
    tensor->data = steps->unpacked[operand->at].data;
  else if (from->allocation_type == kTfLiteMmapRo || from->allocation_type == kTfLitePersistentRo)
    tensor->data = from->data;
  size_t bytes = is_lent_later(from) ? ed_count(tensor) * ed_element_bytes(tensor->type) : from->bytes;
  return ed_expect_sound(tensor, bytes, reason, reason_bytes);
}

bool ed_operand_is_there(const TfLiteContext *context, const ed_operand *operand) {
  if (operand->home != ED_OUTSIDE) return true;
  const TfLiteTensor *tensor = &context->tensors[operand->tensor];
  if (tensor->allocation_type != kTfLiteCustom) return true;
  size_t bytes = ed_element_bytes(tensor->type);
  for (int i = 0; i < tensor->dims->size; i++) bytes *= (size_t)tensor->dims->data[i];
  return tensor->bytes >= bytes && (tensor->data || !bytes);
}

void *ed_operand_address(TfLiteContext *context, const ed_steps *steps, const ed_operand *operand, char *inside) {
  switch (operand->home) {
    case ED_OUTSIDE:
      return context->tensors[operand->tensor].data;
    case ED_INSIDE:
      return inside + operand->at;
    case ED_UNPACKED:
      return steps->unpacked[operand->at].data;
    default:
      return NULL;
  }
}
