// SPDX-License-Identifier: Apache-2.0
// Which ops XNNPACK's operators are said to cover, in sequences as XNNPACK makes them.
#include <string.h>

#include "../src/delegate/operators.h"
#include "check.h"

enum { CONV = 3, DEPTHWISE = 4, FULLY_CONNECTED = 9, MUL = 18, RELU = 19, RESHAPE = 22, MEAN = 40, NEG = 59 };
enum { ADD = 0, CONCATENATION = 2, DEQUANTIZE = 6, QUANTIZE = 114 };

// Ops are numbered 100, 101, ...; `expected` has the ops of each operator as text.
static void covers(const int32_t *codes, size_t count, const char *const *names, size_t operators,
                   const char *const *expected) {
  ed_operators made = {0};
  int32_t ops[16];
  for (size_t i = 0; i < count; i++) ops[i] = (int32_t)(100 + i);
  for (size_t k = operators; k-- > 0;) ed_operators_add(&made, k, names[k], 1000 * (k + 1));
  ed_operators_assign(&made, ops, codes, count);
  CHECK(made.count == operators);
  for (size_t k = 0; k < operators; k++) {
    char told[128] = "";
    for (size_t i = 0; i < made.list[k].ops_count; i++)
      snprintf(told + strlen(told), sizeof told - strlen(told), i ? " %d" : "%d", made.list[k].ops[i]);
    CHECK(!strcmp(made.list[k].name, names[k]));
    CHECK(!strcmp(told, expected[k]));
  }
  ed_operators_free(&made);
}

#define LIST(type, ...) (const type[]){__VA_ARGS__}, sizeof((const type[]){__VA_ARGS__}) / sizeof(type)
#define TEXTS(...)        \
  (const char *const[]) { \
    __VA_ARGS__           \
  }

int main(void) {
  // One each; a convolution of 1x1 is a fully connected operator.
  covers(LIST(int32_t, CONV, DEPTHWISE, CONV, MEAN),
         LIST(char *const, "Convolution (NHWC, F32) IGEMM", "Convolution (NHWC, F32) DWConv",
              "Fully Connected (NC, F32) GEMM", "Mean (ND) Reduce2"),
         TEXTS("100", "101", "102", "103"));
  // One that makes ready for the next.
  covers(LIST(int32_t, ADD, FULLY_CONNECTED),
         LIST(char *const, "Add (ND)", "Static Reshape (NC)", "Fully Connected (NC, QS8, QC8W) GEMM"),
         TEXTS("100", "101", "101"));
  // Ops joined with what is before them, or after them where nothing is.
  covers(LIST(int32_t, CONV, RELU, MUL), LIST(char *const, "Convolution (NHWC, F32) IGEMM", "Multiply (ND)"),
         TEXTS("100 101", "102"));
  covers(LIST(int32_t, RESHAPE, MUL), LIST(char *const, "Multiply (ND)"), TEXTS("100 101"));
  // Operators of other names are the ops between their neighbours, together.
  covers(LIST(int32_t, MEAN, DEQUANTIZE, NEG, QUANTIZE), LIST(char *const, "Mean (ND)", "Invalid Unary Op"),
         TEXTS("100", "101 102 103"));
  covers(LIST(int32_t, CONV, CONCATENATION, CONV),
         LIST(char *const, "Convolution (NHWC) IGEMM", "Copy (NC, X8)", "Copy (NC, X8)", "Convolution (NHWC) IGEMM"),
         TEXTS("100", "101", "101", "102"));
  // Of two alike and one operator it covers both.
  covers(LIST(int32_t, MUL, MUL, ADD), LIST(char *const, "Multiply (ND)", "Add (ND)"), TEXTS("100 101", "102"));
  // Nothing fits: all cover all.
  covers(LIST(int32_t, CONCATENATION, QUANTIZE), LIST(char *const, "A", "B"), TEXTS("100 101", "100 101"));
  // At the end, what has no op is the last one's.
  covers(LIST(int32_t, MUL), LIST(char *const, "Multiply (ND)", "Copy (NC, X8)"), TEXTS("100", "100"));
  // The name alone is not enough: "Multiply" is no "Multi".
  covers(LIST(int32_t, ADD, MUL), LIST(char *const, "Addition", "Multiply (ND)"), TEXTS("100", "101"));
  ed_operators none = {0};
  ed_operators_assign(&none, NULL, NULL, 0);
  ed_operators_add(&none, SIZE_MAX, "far away", 1);
  CHECK(!none.count);
  puts("test_operators: 10 sequences");
}
