// SPDX-License-Identifier: Apache-2.0
// Threads that split the work of one op. They sleep when there is none.
#ifndef ED_THREADS_H
#define ED_THREADS_H

#include <stddef.h>

typedef struct ed_threads ed_threads;

// Does units begin..end. `thread` is below the number of threads asked for; no two calls at once have the same.
typedef void (*ed_work)(void *argument, size_t begin, size_t end, int thread);

// A pool of `threads` threads, the caller of `ed_threads_run` being one of them; fewer where the system gives no more.
// NULL if there is no memory.
ed_threads *ed_threads_create(int threads);

int ed_threads_count(const ed_threads *pool);

// Does `units` units on up to `threads` threads, and returns when all are done. One caller at a time. A process that
// was forked from the one that made the pool does them alone.
void ed_threads_run(ed_threads *pool, int threads, size_t units, ed_work work, void *argument);

// Ends and joins all threads. NULL is allowed.
void ed_threads_destroy(ed_threads *pool);

#endif
