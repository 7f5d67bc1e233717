# SPDX-License-Identifier: Apache-2.0
"""TFLite's detection post-processing: its options decide the shapes, whatever the file says, which is often nothing."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from flatbuffers import flexbuffers

from edgedeploy_partitioner.model.graph import Graph, Op
from edgedeploy_partitioner.model.shapes.site import MAX_DIM, Shape, Site, rule

NAME = "TFLite_Detection_PostProcess"


@rule(f"CUSTOM:{NAME}")
def detection_post_process(site: Site) -> list[Shape]:
    shapes = detection_shapes(site.graph, site.op)
    return shapes or [site.stored(i).shape for i in range(len(site.op.outputs))]


def detection_shapes(graph: Graph, op: Op) -> list[Shape]:
    """Shapes of the boxes, classes, scores and their number; nothing if the options cannot be read."""
    options = detection_options(graph, op)
    try:
        found = int(options["max_detections"]) * int(options["max_classes_per_detection"])
    except (LookupError, OverflowError, ValueError):
        return []
    return [(1, found, 4), (1, found), (1, found), (1,)][: len(op.outputs)] if 0 < found <= MAX_DIM // 4 else []


def detection_options(graph: Graph, op: Op) -> Mapping[str, float]:
    """The numbers among the op's options, by name; nothing if they cannot be read."""
    if op.custom_options is None:
        return {}
    try:
        options = flexbuffers.GetRoot(bytes(graph.bytes_of(op.custom_options))).AsMap
        return {key.AsKey: _number(value) for key, value in zip(options.Keys, options.Values, strict=True)}
    except (AssertionError, LookupError, OverflowError, TypeError, ValueError, struct.error):
        return {}


def _number(value: flexbuffers.Ref) -> float:
    return float(value.AsFloat) if value.IsFloat else int(value.AsBool if value.IsBool else value.AsInt)
