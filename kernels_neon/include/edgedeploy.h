// SPDX-License-Identifier: Apache-2.0
// What a program may call of libedgedeploy.so. TFLite itself needs only the two functions of an external delegate,
// tflite_plugin_create_delegate and tflite_plugin_destroy_delegate, with these options:
//
//   plan=FILE      the plan.edp of the bundle; must be given
//   report=FILE    where to write which ops were claimed (edgedeploy.report/1)
//   threads=N      threads of the library's kernels, 1 to 256; as many as the interpreter has if not given
//   strict=0|1     1: a claim that differs from the plan is an error; else it is a warning on stderr
//   times=0|1      1: edgedeploy_times gives times; the runtime then takes a little longer
#ifndef EDGEDEPLOY_H
#define EDGEDEPLOY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TfLiteDelegate TfLiteDelegate;

typedef enum {
  EDGEDEPLOY_KERNEL = 0,     // a kernel of the runtime, running one op
  EDGEDEPLOY_PARTITION = 1,  // a delegate's node
  EDGEDEPLOY_OPERATOR = 2,   // an operator inside an XNNPACK node
} edgedeploy_unit;

// What the runtime executed as one.
typedef struct {
  edgedeploy_unit unit;
  int32_t subgraph;
  int32_t node;        // the runtime's number: of a kernel, its op in the file; of an operator, its XNNPACK node
  int32_t position;    // of an operator among those of its node, in the order they run; else 0
  const char *name;    // the delegate's, the operator's or the custom op's; empty for a built-in kernel
  const int32_t *ops;  // ops of the model that it covers
  size_t ops_count;    // 0 for an operator that no op can be told of
  uint64_t calls;
  uint64_t total_ns;     // of all calls, without what it called that is listed itself; operators are timed in whole us
  uint64_t shortest_ns;  // of one call, what it called included
} edgedeploy_time;

// The times since the call before, of all that ran, in the order of subgraphs and nodes.
//
// `delegate` is what tflite_plugin_create_delegate gave; NULL is the newest one of this process that gives times, for
// programs that have no more than TFLite's wrapper around it (TfLiteExternalDelegateCreate).
//
// The first call, to be made when the interpreter has its tensors allocated, begins and gives 0. `times` has room for
// `capacity` entries; what it points to lasts until the next call or the end of the delegate. Returns how many entries
// there are; if that is more than `capacity`, nothing of use was written and the times go on. -1 if there is no such
// delegate with the option times=1. Not to be called while the interpreter runs; when it is gone it still gives
// the times that were left, but a first call comes too late then.
#ifdef __GNUC__
__attribute__((visibility("default")))
#endif
int64_t edgedeploy_times(TfLiteDelegate *delegate, edgedeploy_time *times, size_t capacity);

#ifdef __cplusplus
}
#endif

#endif
