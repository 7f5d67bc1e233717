// SPDX-License-Identifier: Apache-2.0
// What partitions share, as one of them runs at a time: threads, and memory that nothing is left in between two runs.
#ifndef ED_WORKSHOP_H
#define ED_WORKSHOP_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "../threads.h"

typedef struct {
  pthread_mutex_t running;
  ed_threads *threads;
  char *tensors;  // inside partitions
  size_t tensors_bytes;
  char *scratch;  // of kernels: `scratch_each` bytes for each thread
  size_t scratch_each;
} ed_workshop;

void ed_workshop_open(ed_workshop *shop);

// Has that many threads if it has none yet, and at least so much memory. False if the system gives no memory.
bool ed_workshop_reserve(ed_workshop *shop, int threads, size_t tensors_bytes, size_t scratch_each);

void ed_workshop_close(ed_workshop *shop);

#endif
