# SPDX-License-Identifier: Apache-2.0
"""Axis mapping against numpy: moving the data must agree with moving the names."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from edgedeploy_partitioner.support.axes import vendor_axis, vendor_permutation, vendor_shape

ORDERS = ["NHWC", "NCHW", "NWHC", "CHWN"]


def to_vendor(value: np.ndarray, order: str) -> np.ndarray:
    if value.ndim < 4:
        return value.reshape((1,) * (4 - value.ndim) + value.shape)
    return value.transpose(["NHWC".index(axis) for axis in order])


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("rank", [0, 1, 2, 3, 4])
def test_permutations_agree_with_moving_the_data(order: str, rank: int) -> None:
    value = np.arange(120)[: np.prod((2, 3, 4, 5)[:rank], dtype=int)].reshape((2, 3, 4, 5)[:rank])
    for perm in permutations(range(rank)):
        moved = vendor_permutation(perm, order)
        assert moved is not None
        expected = to_vendor(value.transpose(perm), order)
        assert np.array_equal(to_vendor(value, order).transpose(moved), expected)
        assert vendor_shape(value.transpose(perm).shape, order) == expected.shape


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_axes_agree_with_reducing_the_data(order: str, rank: int) -> None:
    value = np.arange(120).reshape(2, 3, 4, 5)[(0,) * (4 - rank)]
    for axis in range(-rank, rank):
        at = vendor_axis(axis, rank, order)
        reduced = to_vendor(value.sum(axis=axis, keepdims=True), order)
        assert np.array_equal(to_vendor(value, order).sum(axis=at, keepdims=True), reduced)


@pytest.mark.parametrize("perm", [(0, 0), (1, 2), (0, 1, 2, 3, 4), (-1, 0), (0, 1, 2, 4)])
def test_what_is_no_permutation_of_up_to_four_axes_has_none(perm: tuple[int, ...]) -> None:
    assert vendor_permutation(perm, "NCHW") is None


def test_axes_that_do_not_exist() -> None:
    assert vendor_axis(4, 4, "NCHW") is None
    assert vendor_axis(-3, 2, "NCHW") is None
    assert vendor_axis(0, 5, "NCHW") is None
    assert vendor_shape((1, 1, 1, 1, 1), "NCHW") is None
