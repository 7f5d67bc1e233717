// SPDX-License-Identifier: Apache-2.0
#include "times.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "profiler.h"
#include "unit.h"

typedef struct watched {
  struct watched *next;
  ed_times *owner;
  TfLiteContext *context;
  uint32_t subgraph;
  bool is_installed;  // from then on the context is left alone: it ends with its interpreter, which nobody tells
  TfLiteStatus (*get_plan)(TfLiteContext *, TfLiteIntArray **);
  TfLiteStatus (*get_node)(TfLiteContext *, int, TfLiteNode **, TfLiteRegistration **);
  size_t count;
  ed_unit **units;  // by key
} watched;

struct ed_times {
  struct ed_times *older;
  const TfLiteDelegate *delegate;
};

// All contexts that are watched: a replaced `invoke` gets no more than its context and node.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static watched *all;
static ed_times *newest;  // of all delegates that give times

static _Thread_local ed_unit *running;   // the innermost node
static _Thread_local uint64_t inner_ns;  // what nodes inside it took

static uint64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

void ed_times_event(size_t position, const char *name, uint64_t ns) {
  if (!running) return;
  inner_ns += ns;
  ed_operators_add(&running->operators, position, name, ns);
}

// --- nodes -----------------------------------------------------------

static int by_key(const void *a, const void *b) {
  uintptr_t x = (uintptr_t)(*(ed_unit *const *)a)->key, y = (uintptr_t)(*(ed_unit *const *)b)->key;
  return (x > y) - (x < y);
}

static ed_unit *find(const watched *w, const TfLiteNode *node) {
  ed_unit wanted = {.key = node->inputs}, *key = &wanted, **found = NULL;
  if (w->count) found = bsearch(&key, w->units, w->count, sizeof *w->units, by_key);
  return found ? *found : NULL;
}

static watched *find_context(const TfLiteContext *context) {
  watched *w = all;
  while (w && w->context != context) w = w->next;
  return w;
}

static TfLiteStatus timed(TfLiteContext *context, TfLiteNode *node) {
  pthread_mutex_lock(&lock);
  const watched *w = find_context(context);
  ed_unit *self = w ? find(w, node) : NULL;
  pthread_mutex_unlock(&lock);
  if (!self) return kTfLiteError;  // cannot be: what is replaced is listed
  ed_unit *outer = running;
  uint64_t outer_ns = inner_ns;
  running = self;
  inner_ns = 0;
  uint64_t begun = now_ns();
  TfLiteStatus status = self->invoke(context, node);
  uint64_t elapsed = now_ns() - begun;
  edgedeploy_time *time = &self->time;
  time->calls++;
  time->total_ns += elapsed > inner_ns ? elapsed - inner_ns : 0;
  if (elapsed < time->shortest_ns) time->shortest_ns = elapsed;
  running = outer;
  inner_ns = outer_ns + elapsed;
  return status;
}

// Replaces the `invoke` of what the context executes, where that is not done yet. False without memory.
static bool install(watched *w) {
  TfLiteIntArray *nodes;
  if (w->get_plan(w->context, &nodes) != kTfLiteOk) return false;
  ed_unit **grown = realloc(w->units, (w->count + (size_t)nodes->size + 1) * sizeof *grown);
  if (!grown) return false;
  w->units = grown;
  for (int i = 0; i < nodes->size; i++) {
    TfLiteNode *node;
    TfLiteRegistration *registration;
    if (w->get_node(w->context, nodes->data[i], &node, &registration) != kTfLiteOk) return false;
    if (registration->invoke == timed || !registration->invoke) continue;
    ed_unit *u = ed_unit_make(w->context, w->get_node, w->subgraph, nodes->data[i], node, registration);
    if (!u) return false;
    // One of the same key is of a node that is gone.
    ed_unit *gone = find(w, node);
    if (gone) {
      for (size_t k = 0; k < w->count; k++)
        if (w->units[k] == gone) w->units[k] = u;
      ed_unit_free(gone);
    } else {
      w->units[w->count++] = u;
      qsort(w->units, w->count, sizeof *w->units, by_key);
    }
    registration->invoke = timed;
  }
  return true;
}

// --- what the rest of the library calls ------------------------------

ed_times *ed_times_open(const TfLiteDelegate *delegate) {
  ed_times *times = calloc(1, sizeof *times);
  if (!times) return NULL;
  pthread_mutex_lock(&lock);
  *times = (ed_times){newest, delegate};
  newest = times;
  pthread_mutex_unlock(&lock);
  return times;
}

static void unwatch(watched **at) {
  watched *w = *at;
  *at = w->next;
  for (size_t i = 0; i < w->count; i++) ed_unit_free(w->units[i]);
  free(w->units);
  free(w);
}

// Whether the context is of the interpreter that `w` was made for, and not of another one in its place.
static bool is_same(const watched *w) {
  TfLiteIntArray *nodes;
  if (w->get_plan(w->context, &nodes) != kTfLiteOk) return false;
  for (int i = 0; i < nodes->size; i++) {
    TfLiteNode *node;
    TfLiteRegistration *registration;
    if (w->get_node(w->context, nodes->data[i], &node, &registration) == kTfLiteOk && registration->invoke == timed)
      return true;
  }
  return false;
}

void ed_times_watch(ed_times *times, TfLiteContext *context, uint32_t subgraph) {
  if (!context->profiler) context->profiler = ed_profiler();
  pthread_mutex_lock(&lock);
  watched **at = &all;
  while (*at && (*at)->context != context) at = &(*at)->next;
  if (*at && is_same(*at)) {  // it is applied again
    (*at)->is_installed = false;
    pthread_mutex_unlock(&lock);
    return;
  }
  if (*at) unwatch(at);
  watched *w = calloc(1, sizeof *w);
  if (w)
    *w = (watched){.owner = times,
                   .context = context,
                   .subgraph = subgraph,
                   .get_plan = context->GetExecutionPlan,
                   .get_node = context->GetNodeAndRegistration};
  while (*at) at = &(*at)->next;  // in the order of subgraphs, as they are applied
  if (w) *at = w;
  pthread_mutex_unlock(&lock);
}

void ed_times_close(ed_times *times) {
  if (!times) return;
  pthread_mutex_lock(&lock);
  ed_times **place = &newest;
  while (*place != times) place = &(*place)->older;
  *place = times->older;
  for (watched **at = &all; *at;) {
    if ((*at)->owner == times)
      unwatch(at);
    else
      at = &(*at)->next;
  }
  pthread_mutex_unlock(&lock);
  free(times);
}

// --- what a program calls --------------------------------------------

typedef struct {
  edgedeploy_time *times;
  size_t capacity, count;
} writer;

static void put(writer *to, edgedeploy_time time) {
  if (!time.calls) return;
  if (to->count < to->capacity) to->times[to->count] = time;
  to->count++;
}

static int by_node(const void *a, const void *b) {
  const edgedeploy_time *x = a, *y = b;
  if (x->subgraph != y->subgraph) return x->subgraph < y->subgraph ? -1 : 1;
  if (x->node != y->node) return x->node < y->node ? -1 : 1;
  if (x->unit != y->unit) return x->unit < y->unit ? -1 : 1;
  return (x->position > y->position) - (x->position < y->position);
}

static void put_unit(writer *to, ed_unit *u) {
  put(to, u->time);
  ed_operators_assign(&u->operators, u->running_ops, u->codes, u->running_count);
  for (size_t i = 0; i < u->operators.count; i++) {
    const ed_operator *o = &u->operators.list[i];
    put(to, (edgedeploy_time){.unit = EDGEDEPLOY_OPERATOR,
                              .subgraph = u->time.subgraph,
                              .node = u->time.node,
                              .position = (int32_t)i,
                              .name = o->name,
                              .ops = o->ops,
                              .ops_count = o->ops_count,
                              .calls = o->calls,
                              .total_ns = o->total_ns,
                              .shortest_ns = o->shortest_ns});
  }
}

static int64_t collect(ed_times *times, edgedeploy_time *list, size_t capacity) {
  writer to = {list, capacity, 0};
  for (watched *w = all; w; w = w->next) {
    if (w->owner != times || (!w->is_installed && !install(w))) continue;
    w->is_installed = true;
    for (size_t i = 0; i < w->count; i++) put_unit(&to, w->units[i]);
  }
  if (to.count > capacity) return (int64_t)to.count;
  if (to.count) qsort(list, to.count, sizeof *list, by_node);
  for (watched *w = all; w; w = w->next)
    for (size_t i = 0; w->owner == times && i < w->count; i++) ed_unit_forget(w->units[i]);
  return (int64_t)to.count;
}

int64_t edgedeploy_times(TfLiteDelegate *delegate, edgedeploy_time *list, size_t capacity) {
  pthread_mutex_lock(&lock);
  ed_times *times = newest;
  while (times && delegate && times->delegate != delegate) times = times->older;
  int64_t count = times ? collect(times, list, capacity) : -1;
  pthread_mutex_unlock(&lock);
  return count;
}
