// SPDX-License-Identifier: Apache-2.0
// Every unit is done once, by a thread of its own number, for any number of threads; none is left behind.
#include <dirent.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../src/threads.h"
#include "check.h"
#include "random.h"

enum { MOST = 5000 };

typedef struct {
  int threads;
  atomic_int done[MOST];
  atomic_int inside[64];
} job;

static void work(void *argument, size_t begin, size_t end, int thread) {
  job *j = argument;
  CHECK(thread >= 0 && thread < j->threads && begin < end && end <= MOST);
  CHECK(atomic_fetch_add(&j->inside[thread], 1) == 0);
  for (size_t i = begin; i < end; i++) atomic_fetch_add(&j->done[i], 1);
  atomic_fetch_sub(&j->inside[thread], 1);
}

static int threads_now(void) {
  DIR *tasks = opendir("/proc/self/task");
  CHECK(tasks);
  int count = 0;
  for (struct dirent *entry; (entry = readdir(tasks));) count += entry->d_name[0] != '.';
  closedir(tasks);
  return count;
}

// A fork has none of the threads, and does all alone instead of waiting for them.
static void in_a_fork(job *j) {
  ed_threads *pool = ed_threads_create(4);
  j->threads = 4;
  memset(j->done, 0, sizeof j->done);
  pid_t child = fork();
  CHECK(child >= 0);
  if (!child) {
    alarm(20);  // to wait forever is the failure
    ed_threads_run(pool, 4, MOST, work, j);
    for (size_t i = 0; i < MOST; i++) CHECK(j->done[i] == 1);
    ed_threads_destroy(pool);
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  ed_threads_destroy(pool);
}

int main(void) {
  static job j;
  ed_threads_destroy(ed_threads_create(2));  // a sanitizer has a thread of its own from the first one on
  int before = threads_now(), runs = 0;
  uint64_t random = 1;
  for (int threads = 0; threads <= 9; threads++) {
    ed_threads *pool = ed_threads_create(threads);
    CHECK(ed_threads_count(pool) == (threads > 1 ? threads : 1));
    for (int run = 0; run < 200; run++, runs++) {
      size_t units = below(&random, 4) ? below(&random, 20) : below(&random, MOST);
      j.threads = 1 + (int)below(&random, 12);
      memset(j.done, 0, sizeof j.done);
      int wanted = j.threads;
      if (j.threads > ed_threads_count(pool)) j.threads = ed_threads_count(pool);
      ed_threads_run(pool, wanted, units, work, &j);
      for (size_t i = 0; i < MOST; i++) CHECK(j.done[i] == (i < units));
    }
    ed_threads_destroy(pool);
  }
  ed_threads_destroy(NULL);
  in_a_fork(&j);
  CHECK(threads_now() == before);
  printf("test_threads: %d runs on 1 to 9 threads\n", runs);
}
