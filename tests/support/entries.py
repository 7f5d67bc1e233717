# SPDX-License-Identifier: Apache-2.0
"""Models with several entry points, and with inputs whose shape the file leaves open."""

from __future__ import annotations

import numpy as np

from edgedeploy_partitioner.model.build import Model

DEPTH = 4


FACTORS = {"double": 2.0, "triple": 3.0}


def two_signatures() -> Model:
    """Each multiplies floats by its factor in a subgraph of its own: ``double`` one row, ``triple`` two."""
    model = Model()
    for index, (key, factor) in enumerate(FACTORS.items()):
        g = model.subgraph(key)
        x = g.input((index + 1, DEPTH), name=f"{key}_x", signature=(-1, DEPTH))
        made = g.tensor((index + 1, DEPTH), name=f"{key}_y", signature=(-1, DEPTH))
        w = g.constant((factor * np.eye(DEPTH)).astype(np.float32))
        g.op("FULLY_CONNECTED", [x, w, -1], [made])
        g.outputs(made)
        model.signature(key, {"x": x}, {"y": made}, subgraph=index)
    return model
