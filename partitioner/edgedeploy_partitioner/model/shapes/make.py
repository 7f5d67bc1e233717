# SPDX-License-Identifier: Apache-2.0
"""Ops whose output is made from numbers: shapes, ranges, fills, scatters; and state, whose shape is the file's."""

from __future__ import annotations

import numpy as np

from edgedeploy_partitioner.model.shapes.site import Shape, Site, Unknown, rule


@rule("SHAPE")
def shape(site: Site) -> list[Shape]:
    return [(len(site.peek(0)),)]


@rule("RANK", "HASHTABLE_SIZE")
def one(site: Site) -> list[Shape]:
    return [() if site.op.code == "RANK" else (1,)]


@rule("FILL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM")
def fill(site: Site) -> list[Shape]:
    return [site.ints(0)]


@rule("SPARSE_TO_DENSE")
def sparse_to_dense(site: Site) -> list[Shape]:
    return [site.ints(1)]


@rule("SCATTER_ND")
def scatter_nd(site: Site) -> list[Shape]:
    return [site.ints(2)]


@rule("RANGE")
def range_(site: Site) -> list[Shape]:
    start, limit, step = (site.value(i).reshape(-1) for i in range(3))
    site.require(start.size == limit.size == step.size == 1 and step[0] != 0, "start, limit and step do not fit")
    exact = [v.astype(np.float64 if v.dtype.kind == "f" else object)[0] for v in (start, limit, step)]
    count = -(-(exact[1] - exact[0]) // exact[2])
    if not np.isfinite(float(count)):
        raise Unknown
    return [(max(int(count), 0),)]


@rule("ONE_HOT")
def one_hot(site: Site) -> list[Shape]:
    ids, depth = site.shape(0), site.scalar(1)
    axis = site.axis(site.option("axis", -1), len(ids) + 1)
    return [(*ids[:axis], depth, *ids[axis:])]


@rule("MATRIX_DIAG")
def matrix_diag(site: Site) -> list[Shape]:
    diagonal = site.shape(0)
    site.require(bool(diagonal), "a diagonal must have at least 1 dimension")
    return [(*diagonal, diagonal[-1])]


@rule("MULTINOMIAL")
def multinomial(site: Site) -> list[Shape]:
    return [(site.shape(0, rank=2)[0], site.scalar(1))]


@rule("RFFT2D")
def rfft_2d(site: Site) -> list[Shape]:
    data, length = site.shape(0), site.ints(1)
    site.require(len(data) >= 2 and len(length) == 2, "it takes 2 dimensions or more and 2 lengths")
    return [(*data[:-2], length[0], length[1] // 2 + 1)]


@rule("VAR_HANDLE", "READ_VARIABLE", "HASHTABLE")
def as_stored(site: Site) -> list[Shape]:
    """The shape belongs to the state, not to the inputs."""
    outputs = [site.stored(i) for i in range(len(site.op.outputs))]
    if any(not t.has_rank or t.is_dynamic for t in outputs):
        raise Unknown
    return [t.shape for t in outputs]


@rule("ASSIGN_VARIABLE", "HASHTABLE_IMPORT", "CALL_ONCE")
def nothing(site: Site) -> list[Shape]:  # noqa: ARG001 - these ops give no tensor
    return []
