// SPDX-License-Identifier: Apache-2.0
#include "threads.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

// So many pieces a thread: one that is held up by another program leaves its pieces to the others.
enum { PIECES = 4 };

typedef struct {
  ed_threads *pool;
  pthread_t id;
  int number;
} worker;

struct ed_threads {
  pthread_mutex_t lock;
  pthread_cond_t begun, ended;
  size_t round;  // counts the calls of `ed_threads_run` that woke workers
  int wanted;    // threads that take part in this round, the caller being number 0
  int busy;      // workers that have not ended this round
  bool closing;
  ed_work work;
  void *argument;
  size_t units, pieces;
  atomic_size_t next;
  pid_t process;  // a fork of it has no workers
  int workers_count;
  worker workers[];
};

static void take_pieces(ed_threads *pool, int thread) {
  for (;;) {
    size_t piece = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
    if (piece >= pool->pieces) return;
    size_t each = pool->units / pool->pieces, more = pool->units % pool->pieces;
    size_t begin = piece * each + (piece < more ? piece : more);
    pool->work(pool->argument, begin, begin + each + (piece < more), thread);
  }
}

static void *serve(void *argument) {
  worker *self = argument;
  ed_threads *pool = self->pool;
  size_t seen = 0;
  pthread_mutex_lock(&pool->lock);
  for (;;) {
    while (!pool->closing && (pool->round == seen || self->number >= pool->wanted)) {
      seen = pool->round;
      pthread_cond_wait(&pool->begun, &pool->lock);
    }
    if (pool->closing) break;
    seen = pool->round;
    pthread_mutex_unlock(&pool->lock);
    take_pieces(pool, self->number);
    pthread_mutex_lock(&pool->lock);
    if (--pool->busy == 0) pthread_cond_signal(&pool->ended);
  }
  pthread_mutex_unlock(&pool->lock);
  return NULL;
}

ed_threads *ed_threads_create(int threads) {
  size_t workers = threads > 1 ? (size_t)threads - 1 : 0;
  ed_threads *pool = calloc(1, sizeof *pool + workers * sizeof *pool->workers);
  if (!pool) return NULL;
  pool->process = getpid();
  pthread_mutex_init(&pool->lock, NULL);
  pthread_cond_init(&pool->begun, NULL);
  pthread_cond_init(&pool->ended, NULL);
  sigset_t all, before;  // the program's signals are for its own threads
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (size_t i = 0; i < workers; i++) {
    worker *new = &pool->workers[i];
    *new = (worker){.pool = pool, .number = (int)i + 1};
    if (pthread_create(&new->id, NULL, serve, new)) break;
    pool->workers_count++;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return pool;
}

int ed_threads_count(const ed_threads *pool) {
  return pool->workers_count + 1;
}

void ed_threads_run(ed_threads *pool, int threads, size_t units, ed_work work, void *argument) {
  if (threads > ed_threads_count(pool)) threads = ed_threads_count(pool);
  if (threads > 1 && units < (size_t)threads) threads = (int)units;
  if (threads <= 1 || pool->process != getpid()) {
    if (units) work(argument, 0, units, 0);
    return;
  }
  size_t pieces = (size_t)threads * PIECES;
  pthread_mutex_lock(&pool->lock);
  pool->work = work;
  pool->argument = argument;
  pool->units = units;
  pool->pieces = pieces < units ? pieces : units;
  atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
  pool->wanted = threads;
  pool->busy = threads - 1;
  pool->round++;
  pthread_cond_broadcast(&pool->begun);
  pthread_mutex_unlock(&pool->lock);
  take_pieces(pool, 0);
  pthread_mutex_lock(&pool->lock);
  while (pool->busy) pthread_cond_wait(&pool->ended, &pool->lock);
  pthread_mutex_unlock(&pool->lock);
}

void ed_threads_destroy(ed_threads *pool) {
  if (!pool) return;
  if (pool->process != getpid()) {  // what its workers hold is never let go
    free(pool);
    return;
  }
  pthread_mutex_lock(&pool->lock);
  pool->closing = true;
  pthread_cond_broadcast(&pool->begun);
  pthread_mutex_unlock(&pool->lock);
  for (int i = 0; i < pool->workers_count; i++) pthread_join(pool->workers[i].id, NULL);
  pthread_cond_destroy(&pool->ended);
  pthread_cond_destroy(&pool->begun);
  pthread_mutex_destroy(&pool->lock);
  free(pool);
}
