// SPDX-License-Identifier: Apache-2.0
#include "workshop.h"

#include <stdlib.h>

#include "placement.h"

static size_t aligned(size_t bytes) {
  return (bytes + ED_ALIGNMENT - 1) / ED_ALIGNMENT * ED_ALIGNMENT;
}

static bool grow(char **memory, size_t bytes) {
  char *grown = aligned_alloc(ED_ALIGNMENT, aligned(bytes));
  if (!grown) return false;
  free(*memory);
  *memory = grown;
  return true;
}

void ed_workshop_open(ed_workshop *shop) {
  *shop = (ed_workshop){0};
  pthread_mutex_init(&shop->running, NULL);
}

static bool reserve(ed_workshop *shop, int threads, size_t tensors_bytes, size_t scratch_each) {
  if (!shop->threads && !(shop->threads = ed_threads_create(threads))) return false;
  if (tensors_bytes > shop->tensors_bytes) {
    if (!grow(&shop->tensors, tensors_bytes)) return false;
    shop->tensors_bytes = tensors_bytes;
  }
  if (scratch_each > shop->scratch_each) {
    scratch_each = aligned(scratch_each);
    if (!grow(&shop->scratch, scratch_each * (size_t)ed_threads_count(shop->threads))) return false;
    shop->scratch_each = scratch_each;
  }
  return true;
}

bool ed_workshop_reserve(ed_workshop *shop, int threads, size_t tensors_bytes, size_t scratch_each) {
  pthread_mutex_lock(&shop->running);
  bool has_memory = reserve(shop, threads, tensors_bytes, scratch_each);
  pthread_mutex_unlock(&shop->running);
  return has_memory;
}

void ed_workshop_close(ed_workshop *shop) {
  ed_threads_destroy(shop->threads);
  free(shop->tensors);
  free(shop->scratch);
  pthread_mutex_destroy(&shop->running);
  *shop = (ed_workshop){0};
}
