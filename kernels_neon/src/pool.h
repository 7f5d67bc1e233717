// SPDX-License-Identifier: Apache-2.0
// Threads that split the work of one op. They sleep when there is none.
#ifndef ED_POOL_H
#define ED_POOL_H

#include <stddef.h>

typedef struct ed_pool ed_pool;

// Does units begin..end. `thread` is below the number of threads asked for; no two calls at once have the same.
typedef void (*ed_work)(void *argument, size_t begin, size_t end, int thread);

// A pool of `threads` threads, the caller of `ed_pool_run` being one of them; fewer where the system gives no more.
// NULL if there is no memory.
ed_pool *ed_pool_create(int threads);

int ed_pool_threads(const ed_pool *pool);

// Does `units` units on up to `threads` threads, and returns when all are done. One caller at a time. A process that
// was forked from the one that made the pool does them alone.
void ed_pool_run(ed_pool *pool, int threads, size_t units, ed_work work, void *argument);

// Ends and joins all threads. NULL is allowed.
void ed_pool_destroy(ed_pool *pool);

#endif
