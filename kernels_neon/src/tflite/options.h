// SPDX-License-Identifier: Apache-2.0
// Operators by number, and their options as the runtime hands them to kernels (`builtin_data`), declared by hand.
//
// Numbers are those of `BuiltinOperator` in TFLite's schema, layouts those of `builtin_op_data.h`, the same from
// tflite-runtime 2.14 to LiteRT 2.3.
#ifndef ED_TFLITE_OPTIONS_H
#define ED_TFLITE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum {
  kOpAveragePool2d = 1,
  kOpConcatenation = 2,
  kOpConv2d = 3,
  kOpDequantize = 6,
  kOpL2Normalization = 11,
  kOpMaxPool2d = 17,
  kOpRelu = 19,
  kOpReluN1To1 = 20,
  kOpRelu6 = 21,
  kOpResizeBilinear = 23,
  kOpSoftmax = 25,
  kOpCustom = 32,
  kOpBatchToSpaceNd = 37,
  kOpSpaceToBatchNd = 38,
  kOpStridedSlice = 45,
  kOpExp = 47,
  kOpTopkV2 = 48,
  kOpSplit = 49,
  kOpLogSoftmax = 50,
  kOpPrelu = 54,
  kOpLess = 58,
  kOpGreater = 61,
  kOpGreaterEqual = 62,
  kOpLessEqual = 63,
  kOpEqual = 71,
  kOpNotEqual = 72,
  kOpRsqrt = 76,
  kOpPack = 83,
  kOpUnpack = 88,
  kOpLeakyRelu = 98,
  kOpSquaredDifference = 99,
  kOpAbs = 101,
  kOpSplitV = 102,
  kOpQuantize = 114,
  kOpHardSwish = 117,
  kOpNonMaxSuppressionV4 = 120,
  kOpNonMaxSuppressionV5 = 121,
};

typedef enum { kTfLitePaddingUnknown = 0, kTfLitePaddingSame, kTfLitePaddingValid } TfLitePadding;

typedef enum {
  kTfLiteActNone = 0,
  kTfLiteActRelu,
  kTfLiteActReluN1To1,
  kTfLiteActRelu6,
  kTfLiteActTanh,
  kTfLiteActSignBit,
  kTfLiteActSigmoid,
} TfLiteFusedActivation;

typedef struct {
  TfLitePadding padding;
  int stride_width;
  int stride_height;
  int filter_width;
  int filter_height;
  TfLiteFusedActivation activation;
  int computed[4];  // the runtime's own
} TfLitePoolParams;

typedef struct {
  TfLitePadding padding;
  int stride_width;
  int stride_height;
  TfLiteFusedActivation activation;
  int dilation_width_factor;
  int dilation_height_factor;
  int bias_type;  // 0: of the tensor
} TfLiteConvParams;

typedef struct {
  uint8_t align_corners;  // flags
  uint8_t half_pixel_centers;
} TfLiteResizeBilinearParams;

typedef struct {
  float beta;
} TfLiteSoftmaxParams;

typedef struct {
  float alpha;
} TfLiteLeakyReluParams;

typedef struct {
  TfLiteFusedActivation activation;
} TfLiteL2NormParams;

typedef struct {
  int axis;
  TfLiteFusedActivation activation;
} TfLiteConcatenationParams;

typedef struct {
  int values_count;
  int axis;
} TfLitePackParams;

typedef struct {
  int num;
  int axis;
} TfLiteUnpackParams;

typedef struct {
  int num_splits;
} TfLiteSplitParams;

typedef struct {
  int begin_mask;
  int end_mask;
  int ellipsis_mask;
  int new_axis_mask;
  int shrink_axis_mask;
  bool offset;  // `end` counts from `begin`
} TfLiteStridedSliceParams;

#endif
