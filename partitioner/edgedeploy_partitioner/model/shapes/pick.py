# SPDX-License-Identifier: Apache-2.0
"""Ops that pick or reduce: slices, gathers, reductions, arg-max, top-k."""

from __future__ import annotations

from types import EllipsisType

from edgedeploy_partitioner.model.shapes.site import Shape, Site, Unknown, brackets, rule


@rule("SLICE")
def slice_(site: Site) -> list[Shape]:
    """Sizes count from ``begin``; -1 is all that is left."""
    shape, begin, size = site.shape(0), site.ints(1), site.ints(2)
    site.require(len(begin) == len(size) == len(shape), "begin and size must have one number per dimension")
    sizes = tuple(d - b if s == -1 else s for d, b, s in zip(shape, begin, size, strict=True))
    fits = all(b >= 0 and s >= 0 and b + s <= d for d, b, s in zip(shape, begin, sizes, strict=True))
    site.require(fits, f"begin {brackets(begin)} and size {brackets(size)} reach outside")
    return [sizes]


@rule("STRIDED_SLICE")
def strided_slice(site: Site) -> list[Shape]:
    shape, index = site.shape(0), strided_index(site)
    used = sum(1 for i in index if i is not None and i is not Ellipsis)
    site.require(used <= len(shape), f"{used} slices do not fit")
    fill = (slice(None),) * (len(shape) - used)
    at = index.index(Ellipsis) if Ellipsis in index else len(index)
    dims, sizes = iter(shape), list[int]()
    for i in (*index[:at], *fill, *index[at + 1 :]):
        if i is None:
            sizes.append(1)
        elif isinstance(i, slice):
            sizes.append(len(range(next(dims))[i]))
        elif isinstance(i, int):
            d = next(dims)
            site.require(-d <= i < d, f"index {i} is outside a dimension of {d}")
    return [tuple(sizes)]


def strided_index(site: Site) -> tuple[slice | int | EllipsisType | None, ...]:
    """The op as a Python index: slices, single elements, new axes (None) and one ellipsis."""
    begin, end, step = site.ints(1), site.ints(2), site.ints(3)
    site.require(len(begin) == len(end) == len(step) and 0 not in step, "begin, end and strides do not fit")
    index: list[slice | int | EllipsisType | None] = []
    for i in range(len(begin)):
        if _bit(site, "ellipsis_mask", i):
            index.append(Ellipsis)
        elif _bit(site, "new_axis_mask", i):
            index.append(None)
        elif _bit(site, "shrink_axis_mask", i):
            index.append(begin[i])
        else:
            first = None if _bit(site, "begin_mask", i) else begin[i]
            last = None if _bit(site, "end_mask", i) else end[i] + (begin[i] if site.option("offset") else 0)
            index.append(slice(first, last, step[i]))
    site.require(index.count(Ellipsis) <= 1, "only one ellipsis is possible")
    return tuple(index)


def _bit(site: Site, mask: str, i: int) -> bool:
    return bool(site.option(mask) >> i & 1)


@rule("GATHER")
def gather(site: Site) -> list[Shape]:
    table, ids = site.shape(0), site.shape(1)
    axis = site.axis(site.option("axis"), len(table))
    batch = site.option("batch_dims")
    batch = batch + len(ids) if batch < 0 else batch
    fits = 0 <= batch <= min(axis, len(ids)) and table[:batch] == ids[:batch]
    site.require(fits, f"{batch} batch dimensions do not fit")
    return [(*table[:axis], *ids[batch:], *table[axis + 1 :])]


@rule("GATHER_ND")
def gather_nd(site: Site) -> list[Shape]:
    table, ids = site.shape(0), site.shape(1)
    site.require(bool(ids) and ids[-1] <= len(table), "the indices have more dimensions than the table")
    return [(*ids[:-1], *table[ids[-1] :])]


@rule("EMBEDDING_LOOKUP")
def embedding_lookup(site: Site) -> list[Shape]:
    ids, table = site.shape(0, rank=1), site.shape(1)
    site.require(len(table) >= 2, "the table must have at least 2 dimensions")
    return [(ids[0], *table[1:])]


@rule("HASHTABLE_LOOKUP")
def hashtable_lookup(site: Site) -> list[Shape]:
    return [(*site.shape(0, rank=1), *site.shape(2)[1:]), site.shape(0)]


@rule("HASHTABLE_FIND")
def hashtable_find(site: Site) -> list[Shape]:
    return [site.shape(1)]


@rule("MEAN", "SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_ANY", "REDUCE_ALL")
def reduce(site: Site) -> list[Shape]:
    shape = site.shape(0)
    axes = {site.axis(a, len(shape)) for a in site.ints(1)}
    if site.option("keep_dims"):
        return [tuple(1 if a in axes else d for a, d in enumerate(shape))]
    return [tuple(d for a, d in enumerate(shape) if a not in axes)]


@rule("ARG_MAX", "ARG_MIN")
def arg_max(site: Site) -> list[Shape]:
    shape = site.shape(0)
    axis = site.axis(site.scalar(1), len(shape))
    return [(*shape[:axis], *shape[axis + 1 :])]


@rule("TOPK_V2")
def top_k(site: Site) -> list[Shape]:
    shape, k = site.shape(0), site.scalar(1)
    site.require(bool(shape) and 0 <= k <= shape[-1], f"the last dimension has fewer than {k}")
    return [(*shape[:-1], k)] * 2


@rule("SEGMENT_SUM")
def segment_sum(site: Site) -> list[Shape]:
    ids = site.ints(1)
    return [(max(ids, default=-1) + 1, *site.shape(0)[1:])]


@rule("UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_MIN", "UNSORTED_SEGMENT_PROD", "UNSORTED_SEGMENT_SUM")
def unsorted_segment(site: Site) -> list[Shape]:
    data, ids = site.shape(0), site.shape(1)
    site.require(data[: len(ids)] == ids, "the segment ids do not fit the data")
    return [(site.scalar(2), *data[len(ids) :])]


@rule("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5")
def non_max_suppression(site: Site) -> list[Shape]:
    """As many as may be kept; how many were is the last output."""
    most = (site.scalar(2),)
    return [most, ()] if site.op.code.endswith("V4") else [most, most, ()]


@rule("WHERE", "UNIQUE", "SKIP_GRAM", "EMBEDDING_LOOKUP_SPARSE")
def data_dependent(site: Site) -> list[Shape]:  # noqa: ARG001 - every rule has it
    """The shape follows from the numbers themselves."""
    raise Unknown
