# SPDX-License-Identifier: Apache-2.0
"""From TFLite's axes to the vendor's, in one place.

A tensor of 4 dimensions is NHWC in TFLite and ``order`` (e.g. ``NCHW``) in the vendor's rules. With fewer dimensions
it is not an image: its dimensions are the last ones of ``order``, the leading ones are 1, and nothing is permuted.
"""

from __future__ import annotations

from collections.abc import Sequence

TFLITE = "NHWC"
RANK = len(TFLITE)


def vendor_axis(axis: int, rank: int, order: str) -> int | None:
    """Where TFLite's ``axis`` (may count from the end) of a tensor of ``rank`` dimensions is in the vendor's order.

    None for an axis that does not exist and for tensors of more than 4 dimensions.
    """
    if not -rank <= axis < rank <= RANK:
        return None
    axis %= rank
    return order.index(TFLITE[axis]) if rank == RANK else axis + RANK - rank


def vendor_shape(shape: Sequence[int], order: str) -> tuple[int, ...] | None:
    """``shape`` as 4 dimensions in the vendor's order; None for more than 4 dimensions."""
    if len(shape) > RANK:
        return None
    sizes = [1] * RANK
    for axis, size in enumerate(shape):
        at = vendor_axis(axis, len(shape), order)
        assert at is not None
        sizes[at] = size
    return tuple(sizes)


def vendor_permutation(perm: Sequence[int], order: str) -> tuple[int, ...] | None:
    """The permutation ``perm`` of a TFLite TRANSPOSE in the vendor's axes: output axis i is input axis ``result[i]``.

    None if ``perm`` is not a permutation of up to 4 axes.
    """
    rank = len(perm)
    if rank > RANK or sorted(perm) != list(range(rank)):
        return None
    result = list(range(RANK))
    for to, source in enumerate(perm):
        at, origin = vendor_axis(to, rank, order), vendor_axis(source, rank, order)
        assert at is not None
        assert origin is not None
        result[at] = origin
    return tuple(result)
