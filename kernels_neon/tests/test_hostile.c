// SPDX-License-Identifier: Apache-2.0
// test_hostile COUNT KERNEL...: whatever a model says of an op, a kernel refuses it or stays inside its buffers. Cases
// of every op, each with some of its shapes, types, scales, options, constants and operands changed; what is left of
// what `kernel.h` promises a kernel is kept. Under sanitizers it is no undefined behaviour either.
#include <limits.h>
#include <math.h>
#include <string.h>

#include "../src/kernels/expect.h"
#include "../src/tflite/options.h"
#include "check.h"
#include "harness/each.h"
#include "harness/run.h"

enum { MOST_BYTES = 1 << 18, CHANGES = 400, OF_OTHERS = 4 };  // of a case that is taken as it is, and of another

typedef struct {
  const ed_kernel *neon;
  int taken, tried;
} state;

static int32_t any_integer(ed_random *random) {
  static const int32_t odd[] = {0, 1, 2, 3, 4, 5, 7, 16, 255, 4096, 1 << 30, INT_MAX, -1, -2, INT_MIN, INT_MIN + 1};
  return odd[ed_pick(random, 0, (int)(sizeof odd / sizeof *odd) - 1)];
}

static void change_tensor(ed_random *random, ed_tensor *tensor) {
  static const float scales[] = {0, 1e-45f, 1e-30f, 1, 3e38f, -1, NAN, INFINITY};
  switch (ed_pick(random, 0, 5)) {
    case 0:
      tensor->type = (TfLiteType)ed_pick(random, 0, 12);
      break;
    case 1:
      tensor->rank = ed_pick(random, 0, ED_MAX_RANK);
      for (int i = 0; i < tensor->rank; i++) tensor->dims[i] = ed_pick(random, 0, 4);
      break;
    case 2:
      tensor->scale = scales[ed_pick(random, 0, 7)];
      break;
    case 3:
      tensor->zero_point = any_integer(random);
      break;
    case 4:
      tensor->data = NULL;
      break;
    default:
      if (tensor->rank) tensor->dims[ed_pick(random, 0, tensor->rank - 1)] = any_integer(random);
  }
}

static void change_integer(ed_random *random, void *at, size_t bytes) {
  int32_t value = any_integer(random);
  if (bytes < sizeof value) return;
  memcpy((char *)at + (size_t)ed_pick(random, 0, (int)(bytes / sizeof value) - 1) * sizeof value, &value, sizeof value);
}

// `fed_bytes` are those of what the inputs were fed.
static void change(ed_random *random, ed_case *made, const size_t *fed_bytes) {
  int inputs = made->op.inputs_count, outputs = made->op.outputs_count;
  switch (ed_pick(random, 0, 9)) {
    case 0:
      made->op.inputs_count = ed_pick(random, 0, inputs + 1 < ED_MAX_OPERANDS ? inputs + 1 : inputs);
      break;
    case 1:
      made->op.outputs_count = ed_pick(random, 0, outputs + 1 < ED_MAX_OPERANDS ? outputs + 1 : outputs);
      break;
    case 2:
      if (ed_chance(random, 20)) made->op.params = NULL;
      break;
    case 3:
      // integers only: the runtime's own reader writes no flag that is neither true nor false
      if (made->op.params == made->params)
        change_integer(random, made->params, offsetof(TfLiteStridedSliceParams, offset));
      break;
    case 4: {
      int i = inputs ? ed_pick(random, 0, inputs - 1) : 0;
      if (inputs && made->inputs[i].data && made->fed[i]) change_integer(random, made->fed[i], fed_bytes[i]);
      break;
    }
    case 5:
      if (made->op.host) {
        change_tensor(random, &made->between);
        break;
      }
      // fall through
    case 6:
      if (outputs) change_tensor(random, &made->outputs[ed_pick(random, 0, outputs - 1)]);
      break;
    default:
      if (inputs) change_tensor(random, &made->inputs[ed_pick(random, 0, inputs - 1)]);
  }
}

// Gives inputs as much data as they now have, and tells whether all tensors are as promised and small.
static bool settle(ed_case *made, bool *is_small) {
  char reason[200];
  *is_small = true;
  for (int i = 0; i < made->op.inputs_count + made->op.outputs_count; i++) {
    bool is_input = i < made->op.inputs_count;
    ed_tensor *tensor = is_input ? &made->inputs[i] : &made->outputs[i - made->op.inputs_count];
    if (tensor->type == kTfLiteNoType) {
      tensor->data = NULL;
      *is_small &= is_input;
      continue;
    }
    size_t bytes = ed_element_bytes(tensor->type);
    for (int k = 0; k < tensor->rank; k++) {
      if (__builtin_mul_overflow(bytes, (size_t)tensor->dims[k], &bytes)) return false;
    }
    if (!ed_element_bytes(tensor->type) || !ed_expect_sound(tensor, bytes, reason, sizeof reason)) return false;
    if (bytes > MOST_BYTES) {
      *is_small = false;
      if (tensor->data) return false;
    }
  }
  size_t between = ed_element_bytes(made->between.type);
  for (int k = 0; k < made->between.rank; k++) {
    if (__builtin_mul_overflow(between, (size_t)made->between.dims[k], &between)) return false;
  }
  return !made->op.host || ed_expect_sound(&made->between, between, reason, sizeof reason);
}

static void run_both(const state *all, const ed_kernel *kernel, const ed_job *job, const ed_case *made,
                     ed_random *random) {
  uint8_t *results[ED_MAX_OPERANDS];
  for (int i = 0; i < made->op.outputs_count; i++) CHECK((results[i] = malloc(ed_tensor_bytes(&made->outputs[i]) + 1)));
  ed_run(kernel, job, made, random, results);
  ed_run(all->neon, job, made, random, results);
  for (int i = 0; i < made->op.outputs_count; i++) free(results[i]);
}

static void attack(const ed_tried *tried, void *with) {
  state *all = with;
  for (int n = 0; n < (tried->reason ? OF_OTHERS : CHANGES); n++) {
    ed_random random = {.state = tried->seed * CHANGES + (uint64_t)n};
    ed_case made = *tried->made;
    bool is_small;
    ed_case_settle(&made, tried->made);
    // What is fed is copied, so that it can be changed and ends where it should.
    size_t fed_bytes[ED_MAX_OPERANDS] = {0};
    for (int i = 0; i < ED_MAX_OPERANDS; i++) {
      if (!made.fed[i]) continue;
      size_t bytes = fed_bytes[i] = ed_tensor_bytes(&made.inputs[i]);
      void *copy = malloc(bytes + 1);
      CHECK(copy);
      memcpy(copy, made.fed[i], bytes);
      made.fed[i] = copy;
      if (made.inputs[i].data) made.inputs[i].data = copy;
    }
    for (int k = ed_pick(&random, 1, 3); k > 0; k--) change(&random, &made, fed_bytes);
    for (int i = 0; i < ED_MAX_OPERANDS; i++) {
      size_t had = fed_bytes[i], has = ed_tensor_bytes(&made.inputs[i]);
      if (has > MOST_BYTES) has = 0;
      uint8_t *data = malloc(has ? has : 1);
      CHECK(data);
      for (size_t k = 0; k < has; k++) data[k] = had ? ((const uint8_t *)made.fed[i])[k % had] : (uint8_t)k;
      if (made.inputs[i].data) made.inputs[i].data = data;
      free(made.fed[i]);
      made.fed[i] = made.inputs[i].type == kTfLiteNoType ? NULL : data;
      if (!made.fed[i]) free(data);
    }
    char reason[200] = "";
    ed_job job = {0};
    if (settle(&made, &is_small)) {
      all->tried++;
      if (tried->kernel->prepare(&made.op, &job, reason, sizeof reason)) {
        all->taken++;
        if (is_small && job.scratch_bytes < 64 * MOST_BYTES) run_both(all, tried->kernel, &job, &made, &random);
        free(job.state);
      } else {
        CHECK(*reason);
      }
    }
    for (int i = 0; i < ED_MAX_OPERANDS; i++) free(made.fed[i]);
  }
}

// A tensor that is named five times: in 32 bits its sizes make a fifth of what they are.
static void one_tensor_many_times(void) {
  enum { TIMES = 5, SIZE = 1 << 30 };
  const ed_tensor whole = {.type = kTfLiteInt8, .rank = 1, .dims = {SIZE}, .scale = 1};
  ed_tensor many[TIMES];
  for (int i = 0; i < TIMES; i++) many[i] = whole;
  const int32_t axis[1] = {0}, sizes[TIMES] = {SIZE, SIZE, SIZE, SIZE, SIZE};
  const ed_tensor constant = {.type = kTfLiteInt32, .rank = 0, .data = axis};
  const ed_tensor of_sizes = {.type = kTfLiteInt32, .rank = 1, .dims = {TIMES}, .data = sizes};
  const ed_tensor parted[3] = {whole, of_sizes, constant};
  TfLiteConcatenationParams joined = {.axis = 0};
  ed_op join = {.builtin = kOpConcatenation, .params = &joined, .inputs_count = TIMES, .outputs_count = 1};
  ed_op part = {.builtin = kOpSplitV, .inputs_count = 3, .outputs_count = TIMES};
  join.inputs = part.outputs = many;
  join.outputs = &whole;
  part.inputs = parted;
  ed_job job;
  char reason[200];
  CHECK(!ed_find_kernel("join", "scalar")->prepare(&join, &job, reason, sizeof reason));
  CHECK(!ed_find_kernel("part", "scalar")->prepare(&part, &job, reason, sizeof reason));
}

static void unsound(void) {
  const ed_tensor sound = {.type = kTfLiteInt8, .rank = 2, .dims = {2, 3}, .scale = 1, .zero_point = -128};
  char reason[200];
  CHECK(ed_expect_sound(&sound, 6, reason, sizeof reason));
  CHECK(!ed_expect_sound(&sound, 5, reason, sizeof reason));
  ed_tensor changed[6];
  for (int i = 0; i < 6; i++) changed[i] = sound;
  changed[0].dims[0] = -2;
  changed[1].zero_point = 128;
  changed[2].scale = NAN;
  changed[3].scale = INFINITY;
  changed[4].scale = -1;
  changed[5].type = kTfLiteUInt8;
  for (int i = 0; i < 6; i++) CHECK(!ed_expect_sound(&changed[i], i ? 6 : (size_t)-6, reason, sizeof reason));
}

int main(int count, char **words) {
  CHECK(count > 2);
  unsound();
  one_tensor_many_times();
  for (int i = 2; i < count; i++) {
    const ed_kernel *scalar = ed_find_kernel(words[i], "scalar");
    state all = {.neon = ed_find_kernel(words[i], "neon")};
    CHECK(scalar && all.neon);
    ed_each_case(scalar, 2, (atoi(words[1]) + 9) / 10, attack, &all);
    CHECK(all.taken > 0 && all.taken < all.tried);
    printf("test_hostile: %s, %d changed cases, %d taken\n", words[i], all.tried, all.taken);
  }
}
