// SPDX-License-Identifier: Apache-2.0
// The part of TFLite's C interface that a delegate sees, declared by hand: no wheel ships headers.
//
// Layouts are those of `tensorflow/lite/core/c/common.h` and `builtin_op_data.h` on 64-bit Linux, the same from
// tflite-runtime 2.14 to LiteRT 2.3. The sizes are asserted; the tests run the library on each of those runtimes.
#ifndef ED_TFLITE_ABI_H
#define ED_TFLITE_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { kTfLiteOk = 0, kTfLiteError = 1, kTfLiteDelegateError = 2 } TfLiteStatus;

typedef enum {
  kTfLiteNoType = 0,
  kTfLiteFloat32 = 1,
  kTfLiteInt32 = 2,
  kTfLiteUInt8 = 3,
  kTfLiteInt64 = 4,
  kTfLiteString = 5,
  kTfLiteBool = 6,
  kTfLiteInt16 = 7,
  kTfLiteComplex64 = 8,
  kTfLiteInt8 = 9,
  kTfLiteFloat16 = 10,
  kTfLiteFloat64 = 11,
} TfLiteType;

typedef enum {
  kTfLiteMemNone = 0,
  kTfLiteMmapRo,
  kTfLiteArenaRw,
  kTfLiteArenaRwPersistent,
  kTfLiteDynamic,
  kTfLitePersistentRo,
  kTfLiteCustom,
} TfLiteAllocationType;

enum {
  kTfLiteDelegateFlagsAllowDynamicTensors = 1,
  kTfLiteDelegateFlagsRequirePropagatedShapes = 2,
};

enum { kTfLiteBuiltinCustom = 32, kTfLiteBuiltinDelegate = 51 };

typedef struct TfLiteIntArray {
  int size;
  int data[];
} TfLiteIntArray;

typedef struct TfLiteFloatArray {
  int size;
  float data[];
} TfLiteFloatArray;

typedef struct TfLiteQuantizationParams {
  float scale;
  int32_t zero_point;
} TfLiteQuantizationParams;

enum { kTfLiteNoQuantization = 0, kTfLiteAffineQuantization = 1 };

typedef struct TfLiteQuantization {
  int type;
  void *params;  // a TfLiteAffineQuantization if `type` says so
} TfLiteQuantization;

typedef struct TfLiteAffineQuantization {
  TfLiteFloatArray *scale;
  TfLiteIntArray *zero_point;
  int32_t quantized_dimension;
} TfLiteAffineQuantization;

typedef struct TfLiteContext TfLiteContext;
typedef struct TfLiteDelegate TfLiteDelegate;
typedef struct TfLiteNode TfLiteNode;
typedef struct TfLiteRegistration TfLiteRegistration;

typedef struct TfLiteTensor {
  TfLiteType type;
  void *data;
  TfLiteIntArray *dims;
  TfLiteQuantizationParams params;  // of a tensor with one scale; zeros otherwise
  TfLiteAllocationType allocation_type;
  size_t bytes;
  const void *allocation;
  const char *name;
  TfLiteDelegate *delegate;
  int buffer_handle;
  bool data_is_stale;
  bool is_variable;
  TfLiteQuantization quantization;
  void *sparsity;
  const TfLiteIntArray *dims_signature;
} TfLiteTensor;

struct TfLiteNode {
  TfLiteIntArray *inputs;
  TfLiteIntArray *outputs;
  TfLiteIntArray *intermediates;
  TfLiteIntArray *temporaries;
  void *user_data;
  void *builtin_data;
  const void *custom_initial_data;
  int custom_initial_data_size;
  TfLiteDelegate *delegate;
  bool might_have_side_effect;
};

// What `TfLiteRegistration.init` of a delegate's node gets as its buffer.
typedef struct TfLiteDelegateParams {
  TfLiteDelegate *delegate;
  TfLiteIntArray *nodes_to_replace;
  TfLiteIntArray *input_tensors;
  TfLiteIntArray *output_tensors;
} TfLiteDelegateParams;

struct TfLiteRegistration {
  void *(*init)(TfLiteContext *context, const char *buffer, size_t length);
  void (*free)(TfLiteContext *context, void *buffer);
  TfLiteStatus (*prepare)(TfLiteContext *context, TfLiteNode *node);
  TfLiteStatus (*invoke)(TfLiteContext *context, TfLiteNode *node);
  const char *(*profiling_string)(const TfLiteContext *context, const TfLiteNode *node);
  int32_t builtin_code;
  const char *custom_name;
  int version;
  void *registration_external;
  void *(*async_kernel)(TfLiteContext *context, TfLiteNode *node);
  uint64_t inplace_operator;
};

struct TfLiteContext {
  size_t tensors_size;
  TfLiteStatus (*GetExecutionPlan)(TfLiteContext *context, TfLiteIntArray **plan);
  TfLiteTensor *tensors;
  void *impl_;
  TfLiteStatus (*ResizeTensor)(TfLiteContext *context, TfLiteTensor *tensor, TfLiteIntArray *size);
  void (*ReportError)(TfLiteContext *context, const char *format, ...);
  TfLiteStatus (*AddTensors)(TfLiteContext *context, int count, int *first);
  TfLiteStatus (*GetNodeAndRegistration)(TfLiteContext *context, int index, TfLiteNode **node,
                                         TfLiteRegistration **registration);
  TfLiteStatus (*ReplaceNodeSubsetsWithDelegateKernels)(TfLiteContext *context, TfLiteRegistration registration,
                                                        const TfLiteIntArray *nodes, TfLiteDelegate *delegate);
  int recommended_num_threads;
  void *(*GetExternalContext)(TfLiteContext *context, int type);
  void (*SetExternalContext)(TfLiteContext *context, int type, void *external);
  bool allow_fp32_relax_to_fp16;
  void *profiler;
  void *(*AllocatePersistentBuffer)(TfLiteContext *context, size_t bytes);
  TfLiteStatus (*AllocateBufferForEval)(TfLiteContext *context, size_t bytes, void **buffer);
  TfLiteStatus (*RequestScratchBufferInArena)(TfLiteContext *context, size_t bytes, int *index);
  void *(*GetScratchBuffer)(TfLiteContext *context, int index);
  TfLiteStatus (*ResizeTensorExplicit)(TfLiteContext *context, TfLiteTensor *tensor, int rank, const int *shape);
  TfLiteStatus (*PreviewDelegatePartitioning)(TfLiteContext *context, const TfLiteIntArray *nodes,
                                              TfLiteDelegateParams **partitions, int *count);
  TfLiteTensor *(*GetTensor)(const TfLiteContext *context, int index);
  void *(*GetEvalTensor)(const TfLiteContext *context, int index);
  TfLiteStatus (*GetModelMetadata)(const TfLiteContext *context, const char *name, const char **data, size_t *bytes);
  TfLiteStatus (*AcquireSubgraphContext)(TfLiteContext *context, int index, TfLiteContext **subgraph);
  TfLiteStatus (*ReleaseSubgraphContext)(TfLiteContext *context, int index);
};

struct TfLiteDelegate {
  void *data_;
  TfLiteStatus (*Prepare)(TfLiteContext *context, TfLiteDelegate *delegate);
  TfLiteStatus (*CopyFromBufferHandle)(TfLiteContext *context, TfLiteDelegate *delegate, int handle,
                                       TfLiteTensor *tensor);
  TfLiteStatus (*CopyToBufferHandle)(TfLiteContext *context, TfLiteDelegate *delegate, int handle,
                                     TfLiteTensor *tensor);
  void (*FreeBufferHandle)(TfLiteContext *context, TfLiteDelegate *delegate, int *handle);
  int64_t flags;
  void *opaque_delegate_builder;
};

_Static_assert(sizeof(TfLiteTensor) == 112, "TfLiteTensor");
_Static_assert(sizeof(TfLiteNode) == 80, "TfLiteNode");
_Static_assert(sizeof(TfLiteRegistration) == 88, "TfLiteRegistration");
_Static_assert(sizeof(TfLiteContext) == 200, "TfLiteContext");
_Static_assert(sizeof(TfLiteDelegate) == 56, "TfLiteDelegate");

#endif
