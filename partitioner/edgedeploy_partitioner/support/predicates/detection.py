# SPDX-License-Identifier: Apache-2.0
"""What the C kernel of TFLite's detection post-processing asks."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from edgedeploy_partitioner.model.graph import DType, Tensor
from edgedeploy_partitioner.model.shapes.detection import detection_options, detection_shapes
from edgedeploy_partitioner.model.shapes.site import constant
from edgedeploy_partitioner.support.case import Case
from edgedeploy_partitioner.support.predicates.registry import predicate

_MOST = 2**15 - 1


@predicate
def detection_limits(case: Case) -> str | None:
    """options with at least one detection and one class, and an overlap above 0 and at most 1"""
    options = detection_options(case.graph, case.op)
    most, overlap = options.get("max_detections", 0), np.float32(options.get("nms_iou_threshold", 0))
    places, classes = options.get("max_classes_per_detection", 0), options.get("num_classes", 0)
    if not 1 <= most <= _MOST or not 1 <= places <= _MOST or classes < 1 or options.get("detections_per_class", 1) < 1:
        return f"{most} detections, {places} classes for each, of {classes}"
    return None if 0 < overlap <= 1 else f"an overlap of {overlap:g}"


@predicate
def boxes_scores_anchors(case: Case) -> str | None:
    """boxes (1, N, 4), scores (1, N, C) and constant anchors (N, 4) of the boxes' type, without a negative side"""
    boxes, scores, anchors = (case.input(i) for i in range(3))
    if boxes is None or scores is None or anchors is None or len(case.op.inputs) != 3 or len(case.op.outputs) != 4:
        return f"{len(case.op.inputs)} inputs and {len(case.op.outputs)} outputs"
    return _shapes(boxes, scores, anchors, detection_options(case.graph, case.op)) or _sides(case, boxes, anchors)


@predicate
def stated_outputs(case: Case) -> str | None:
    """outputs whose shapes the file states, as the options say

    Of those that it leaves out the runtime learns when it prepares its own kernel, too late for a delegate.
    """
    for i, shape in enumerate(detection_shapes(case.graph, case.op)):
        output = case.output(i)
        if output is None or output.elements != math.prod(shape):
            return f"output {i} is {output.shape if output else 'absent'}, not {shape}"
    return None


def _shapes(boxes: Tensor, scores: Tensor, anchors: Tensor, options: Mapping[str, float]) -> str | None:
    if tuple(len(tensor.shape) for tensor in (boxes, scores, anchors)) != (3, 3, 2):
        return f"shapes {boxes.shape}, {scores.shape} and {anchors.shape}"
    (batch, count, values), classes = boxes.shape, scores.shape[2]
    fits = batch == 1 and values >= 4 and scores.shape[:2] == (1, count) and anchors.shape[1] == 4
    if not fits or anchors.shape[0] < count:
        return f"shapes {boxes.shape}, {scores.shape} and {anchors.shape}"
    if classes - options.get("num_classes", 0) not in (0, 1):
        return f"{classes} scores of a box for {options.get('num_classes', 0)} classes"
    return None if anchors.dtype is boxes.dtype else f"{boxes.dtype.value} boxes and {anchors.dtype.value} anchors"


def _sides(case: Case, boxes: Tensor, anchors: Tensor) -> str | None:
    values = constant(case.graph, anchors)
    if values is None:
        return "anchors that are computed"
    zero = anchors.quantization.zero_points[0] if anchors.dtype is DType.UINT8 and anchors.quantization else 0
    sides = values[: boxes.shape[1], 2:].astype(np.float32) - np.float32(zero)
    return None if np.all(sides >= 0) else "an anchor with a negative side"
