# SPDX-License-Identifier: Apache-2.0
"""The predicates of the kernel for TFLite's detection post-processing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers

from edgedeploy_partitioner.model.build import Model, per_tensor
from edgedeploy_partitioner.model.read import read_bytes
from support.boundaries import Boundary, check
from support.single_op import Made

OPTIONS = {"max_detections": 3, "max_classes_per_detection": 1, "num_classes": 2, "nms_iou_threshold": 0.5}
SIDES = np.array([[0, 0, 1, 2]] * 9, np.float32)


def detect(
    boxes: tuple[int, ...] = (1, 9, 4), scores: tuple[int, ...] = (1, 9, 3), dtype: str = "float32",
    anchors: Any = SIDES, zero_point: int = 0, **options: float,
) -> Made:  # fmt: skip
    model = Model()
    g = model.subgraph()
    quant = per_tensor(0.5, zero_point) if dtype == "uint8" else None
    inputs = [g.input(boxes, dtype, quant), g.input(scores)]
    stored = None if anchors is None else anchors.astype("uint8" if dtype == "uint8" else "float32")
    inputs.append(g.input((9, 4)) if stored is None else g.constant(stored, quant=quant))
    outs = [g.tensor(shape) for shape in ((1, 3, 4), (1, 3), (1, 3), (1,))]
    written = bytes(flexbuffers.Dumps({**OPTIONS, **options}))
    g.op("CUSTOM", inputs, outs, custom_code="TFLite_Detection_PostProcess", custom_options=written)
    g.outputs(*outs)
    graph = read_bytes(model.build())
    return graph, graph.subgraphs[0].ops[0]


FINE = detect()
BOUNDARIES = [
    Boundary("detection_limits", True, detect(max_detections=1), detect(max_detections=0),
             "0 detections, 1 classes for each, of 2"),
    Boundary("detection_limits", True, detect(num_classes=1), detect(num_classes=0),
             "3 detections, 1 classes for each, of 0"),
    Boundary("detection_limits", True, detect(nms_iou_threshold=1.0), detect(nms_iou_threshold=1.25),
             "an overlap of 1.25"),
    Boundary("detection_limits", True, FINE, detect(nms_iou_threshold=0.0), "an overlap of 0"),
    Boundary("boxes_scores_anchors", True, detect((1, 9, 5)), detect((1, 9, 3)),
             "shapes (1, 9, 3), (1, 9, 3) and (9, 4)"),
    Boundary("boxes_scores_anchors", True, FINE, detect((9, 4)), "shapes (9, 4), (1, 9, 3) and (9, 4)"),
    Boundary("boxes_scores_anchors", True, FINE, detect((1, 10, 4), (1, 10, 3)),
             "shapes (1, 10, 4), (1, 10, 3) and (9, 4)"),
    Boundary("boxes_scores_anchors", True, detect(scores=(1, 9, 2)), detect(scores=(1, 9, 4)),
             "4 scores of a box for 2 classes"),
    Boundary("boxes_scores_anchors", True, FINE, detect(anchors=None), "anchors that are computed"),
    Boundary("boxes_scores_anchors", True, FINE, detect(anchors=-SIDES), "an anchor with a negative side"),
    Boundary("boxes_scores_anchors", True, detect(dtype="uint8", zero_point=1), detect(dtype="uint8", zero_point=2),
             "an anchor with a negative side"),
    Boundary("stated_outputs", True, FINE, detect(max_detections=4), "output 0 is (1, 3, 4), not (1, 4, 4)"),
]  # fmt: skip


@pytest.mark.parametrize("row", BOUNDARIES, ids=lambda row: f"{row.name}-{row.found}")
def test_where_a_predicate_begins_to_break(row: Boundary) -> None:
    check(row)
