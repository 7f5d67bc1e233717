// SPDX-License-Identifier: Apache-2.0
// write_cases KERNEL SEED COUNT: cases for a kernel with the outputs of its scalar file, for the stock runtime to
// confirm. write_cases KERNEL OP TYPE SHAPE: the typical case, for the benchmark. Of each, a line of JSON, then what is
// fed to the inputs and what is in the outputs, one after the other.
#include <inttypes.h>

#include "check.h"
#include "harness/each.h"
#include "harness/run.h"

static void tensor(const ed_tensor *t) {
  printf("{\"type\": %d, \"constant\": %s, \"shape\": [", t->type, t->data ? "true" : "false");
  for (int k = 0; k < t->rank; k++) printf("%s%d", k ? ", " : "", t->dims[k]);
  printf("]");
  if (t->quantization) printf(", \"scale\": %.9g, \"zero_point\": %d", (double)t->scale, t->zero_point);
  printf("}");
}

static void tensors(const char *key, const ed_tensor *list, int count) {
  printf(", \"%s\": [", key);
  for (int i = 0; i < count; i++) {
    if (i) printf(", ");
    tensor(&list[i]);
  }
  printf("]");
}

static void show(const ed_tried *tried, void *with) {
  (void)with;
  const ed_case *made = tried->made;
  printf("{\"op\": \"%s\", \"options\": %s, \"seed\": %" PRIu64 ", \"reason\": \"%s\"", made->name, made->options,
         tried->seed, tried->reason ? tried->reason : "");
  tensors("inputs", made->inputs, made->op.inputs_count);
  tensors("outputs", made->outputs, made->op.outputs_count);
  if (made->op.host) {
    printf(", \"host\": {\"op\": \"%s\", \"options\": %s, \"result\": ", made->host_name, made->host_options);
    tensor(&made->between);
    printf("}");
  }
  printf("}\n");
  for (int i = 0; i < made->op.inputs_count; i++) {
    if (made->fed[i]) fwrite(made->fed[i], 1, ed_tensor_bytes(&made->inputs[i]), stdout);
  }
  if (tried->reason) return;
  uint8_t *results[ED_MAX_OPERANDS];
  for (int i = 0; i < made->op.outputs_count; i++) CHECK(results[i] = malloc(ed_tensor_bytes(&made->outputs[i]) + 1));
  ed_run(tried->kernel, tried->job, made, NULL, results);
  for (int i = 0; i < made->op.outputs_count; i++) {
    fwrite(results[i], 1, ed_tensor_bytes(&made->outputs[i]), stdout);
    free(results[i]);
  }
}

static void show_typical(const ed_kernel *kernel, const char *op, int type, const char *shape) {
  ed_case made;
  CHECK(ed_typical_case(op, type, shape, &made));
  ed_job job = {0};
  char reason[200] = "";
  bool takes = kernel->prepare(&made.op, &job, reason, sizeof reason);
  show(&(ed_tried){kernel, &made, &job, takes ? NULL : reason, 0}, NULL);
  if (takes) free(job.state);
  ed_case_free(&made);
}

int main(int count, char **words) {
  CHECK(count >= 4);
  const ed_kernel *kernel = ed_find_kernel(words[1], "scalar");
  CHECK(kernel);
  if (count == 5)
    show_typical(kernel, words[2], atoi(words[3]), words[4]);
  else
    ed_each_case(kernel, (uint64_t)atoll(words[2]), atoi(words[3]), show, NULL);
  return 0;
}
