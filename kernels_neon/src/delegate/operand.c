// SPDX-License-Identifier: Apache-2.0
#include "operand.h"

#include "../kernels/expect.h"
#include "../kernels/reject.h"

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
  return ed_expect_sound(tensor, from->bytes, reason, reason_bytes);
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
