# SPDX-License-Identifier: Apache-2.0
"""Ops that move numbers: reshape, transpose, join, split, pad, blocks."""

from __future__ import annotations

from edgedeploy_partitioner.model.shapes.site import Shape, Site, Unknown, brackets, elements, rule


@rule("RESHAPE")
def reshape(site: Site) -> list[Shape]:
    """The new shape is the second input, or an option if there is none; one -1 takes what is left."""
    target = _target(site)
    if -1 not in target:
        count = elements(site.peek(0))
        site.require(elements(target) == count, f"{count} elements cannot become {brackets(target)}")
        return [target]
    count = elements(site.shape(0))
    others = elements(tuple(d for d in target if d != -1))
    fits = target.count(-1) == 1 and others > 0 and count % others == 0
    site.require(fits, f"{count} elements cannot become {brackets(target)}")
    return [tuple(count // others if d == -1 else d for d in target)]


def _target(site: Site) -> Shape:
    if site.has(1) and len(site.peek(1)) == 1:
        return site.ints(1)
    new_shape = site.vector("new_shape")
    return () if new_shape == (0,) else new_shape  # converters once wrote a scalar as [0]


@rule("SQUEEZE")
def squeeze(site: Site) -> list[Shape]:
    shape = site.shape(0)
    axes = {site.axis(a, len(shape)) for a in site.vector("squeeze_dims")}
    axes = axes or {a for a, d in enumerate(shape) if d == 1}
    site.require(all(shape[a] == 1 for a in axes), f"dimensions {sorted(axes)} must have size 1")
    return [tuple(d for a, d in enumerate(shape) if a not in axes)]


@rule("EXPAND_DIMS")
def expand_dims(site: Site) -> list[Shape]:
    shape = site.shape(0)
    axis = site.axis(site.scalar(1), len(shape) + 1)
    return [(*shape[:axis], 1, *shape[axis:])]


@rule("TRANSPOSE")
def transpose(site: Site) -> list[Shape]:
    shape = site.shape(0)
    order = [site.axis(a, len(shape)) for a in site.ints(1)]
    site.require(sorted(order) == list(range(len(shape))), f"{brackets(order)} is not an order of its dimensions")
    return [tuple(shape[a] for a in order)]


@rule("BITCAST")
def bitcast(site: Site) -> list[Shape]:
    shape, old, new = site.shape(0), site.tensor(0).dtype.bits, site.stored(0).dtype.bits
    if not old or not new:
        raise Unknown
    if new < old:
        return [(*shape, old // new)]
    if new > old:
        site.require(bool(shape) and shape[-1] == new // old, f"the last dimension must be {new // old}")
        return [shape[:-1]]
    return [shape]


@rule("CONCATENATION")
def concatenation(site: Site) -> list[Shape]:
    shapes = [site.shape(i) for i in range(len(site.op.inputs))]
    site.require(bool(shapes), "there is nothing to join")
    axis = site.axis(site.option("axis"), len(shapes[0]))
    rest = {(*s[:axis], *s[axis + 1 :]) for s in shapes}
    fits = len(rest) == 1 and all(len(s) == len(shapes[0]) for s in shapes)
    site.require(fits, f"inputs must be equal but for axis {axis}")
    return [(*shapes[0][:axis], sum(s[axis] for s in shapes), *shapes[0][axis + 1 :])]


@rule("PACK")
def pack(site: Site) -> list[Shape]:
    shapes = [site.shape(i) for i in range(len(site.op.inputs))]
    site.require(len(set(shapes)) == 1, "all inputs must have the same shape")
    axis = site.axis(site.option("axis"), len(shapes[0]) + 1)
    return [(*shapes[0][:axis], len(shapes), *shapes[0][axis:])]


@rule("UNPACK")
def unpack(site: Site) -> list[Shape]:
    shape = site.shape(0)
    axis = site.axis(site.option("axis"), len(shape))
    count = len(site.op.outputs)
    site.require(shape[axis] == count, f"axis {axis} must have the size of its {count} outputs")
    return [(*shape[:axis], *shape[axis + 1 :])] * count


@rule("SPLIT")
def split(site: Site) -> list[Shape]:
    shape, count = site.shape(1), len(site.op.outputs)
    axis = site.axis(site.scalar(0), len(shape))
    site.require(count > 0 and shape[axis] % count == 0, f"axis {axis} does not divide into {count}")
    return [(*shape[:axis], shape[axis] // count, *shape[axis + 1 :])] * count


@rule("SPLIT_V")
def split_v(site: Site) -> list[Shape]:
    shape, sizes = site.shape(0), site.ints(1)
    axis = site.axis(site.scalar(2), len(shape))
    rest = shape[axis] - sum(s for s in sizes if s != -1)
    sizes = tuple(rest if s == -1 else s for s in sizes)
    fits = min(sizes, default=0) >= 0 and sum(sizes) == shape[axis]
    site.require(fits, f"axis {axis} does not split into {brackets(sizes)}")
    return [(*shape[:axis], s, *shape[axis + 1 :]) for s in sizes]


@rule("PAD", "PADV2", "MIRROR_PAD")
def pad(site: Site) -> list[Shape]:
    shape, pads = site.shape(0), site.ints(1)
    site.require(len(pads) == 2 * len(shape) and min(pads, default=0) >= 0, f"paddings {brackets(pads)} do not fit")
    return [tuple(d + pads[2 * a] + pads[2 * a + 1] for a, d in enumerate(shape))]


@rule("TILE")
def tile(site: Site) -> list[Shape]:
    shape, times = site.shape(0), site.ints(1)
    site.require(len(times) == len(shape) and min(times, default=0) >= 0, f"multiples {brackets(times)} do not fit")
    return [tuple(d * n for d, n in zip(shape, times, strict=True))]


@rule("SPACE_TO_DEPTH")
def space_to_depth(site: Site) -> list[Shape]:
    n, h, w, depth = site.shape(0, rank=4)
    block = site.option("block_size")
    site.require(block > 0 and h % block == 0 and w % block == 0, f"{h}x{w} does not divide into blocks of {block}")
    return [(n, h // block, w // block, depth * block * block)]


@rule("DEPTH_TO_SPACE")
def depth_to_space(site: Site) -> list[Shape]:
    n, h, w, depth = site.shape(0, rank=4)
    block = site.option("block_size")
    site.require(block > 0 and depth % (block * block) == 0, f"{depth} channels do not divide into blocks of {block}")
    return [(n, h * block, w * block, depth // (block * block))]


@rule("SPACE_TO_BATCH_ND")
def space_to_batch_nd(site: Site) -> list[Shape]:
    shape, block, pads = site.shape(0), site.ints(1), site.ints(2)
    inner = _blocks(site, shape, block, pads)
    padded = [d + pads[2 * a] + pads[2 * a + 1] for a, d in enumerate(inner)]
    fits = all(d % b == 0 for d, b in zip(padded, block, strict=True))
    site.require(fits, f"{brackets(padded)} does not divide into blocks of {brackets(block)}")
    sizes = (d // b for d, b in zip(padded, block, strict=True))
    return [(shape[0] * elements(block), *sizes, *shape[1 + len(block) :])]


@rule("BATCH_TO_SPACE_ND")
def batch_to_space_nd(site: Site) -> list[Shape]:
    shape, block, crops = site.shape(0), site.ints(1), site.ints(2)
    inner = _blocks(site, shape, block, crops)
    site.require(shape[0] % elements(block) == 0, f"batch {shape[0]} does not divide into blocks of {brackets(block)}")
    sizes = [d * block[a] - crops[2 * a] - crops[2 * a + 1] for a, d in enumerate(inner)]
    site.require(min(sizes, default=0) >= 0, f"crops {brackets(crops)} take more than there is")
    return [(shape[0] // elements(block), *sizes, *shape[1 + len(block) :])]


def _blocks(site: Site, shape: Shape, block: Shape, border: Shape) -> Shape:
    """The dimensions that ``block`` divides: those after the batch."""
    fits = len(shape) > len(block) and min(block, default=1) > 0 and len(border) == 2 * len(block)
    site.require(fits, f"blocks {brackets(block)} and borders {brackets(border)} do not fit")
    return shape[1 : 1 + len(block)]


@rule("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
def resize(site: Site) -> list[Shape]:
    n, _, _, depth = site.shape(0, rank=4)
    size = site.ints(1)
    site.require(len(size) == 2, "the new size must be height and width")
    return [(n, *size, depth)]
