# SPDX-License-Identifier: Apache-2.0
"""Images to and from blocks of channels, by NumPy; their conversions by XNNPACK's QUANTIZE and DEQUANTIZE."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from support.kernel_programs import Array, KernelCase, cases, programs, stock

from .conftest import COUNT


def to_blocks(image: Array, depth: int, filling: int) -> Array:
    n, h, w, c = image.shape
    padded = np.pad(image, [(0, 0), (0, 0), (0, 0), (0, -c % depth)], constant_values=filling)
    return padded.reshape(n, h, w, -1, depth).transpose(0, 3, 1, 2, 4)


def from_blocks(blocks: Array, channels: int) -> Array:
    n, _, h, w, _ = blocks.shape
    return blocks.transpose(0, 2, 3, 1, 4).reshape(n, h, w, -1)[..., :channels]


def op_of(case: KernelCase) -> str:
    """The TFLite op that converts values like ``case``; empty if they stay as they are."""
    before, after = case.inputs[0].type, case.outputs[0].type
    if before == after:
        return ""
    return "DEQUANTIZE" if after == "float32" else "QUANTIZE"


@pytest.mark.parametrize("kernel", ["to_blocks", "from_blocks"])
def test_layout_and_values(kernel: str) -> None:
    try:
        programs("plain")
    except LookupError as error:
        pytest.skip(str(error))
    found = [case for case in cases(kernel, 1, 4 * COUNT) if not case.reason]
    assert len({(case.inputs[0].type, case.outputs[0].type) for case in found}) == 10
    converting = [case for case in found if op_of(case)]
    alone = [
        replace(case, op=op_of(case), options={}, outputs=(replace(case.outputs[0], shape=case.inputs[0].shape),))
        for case in converting
    ]
    converted = dict(zip((case.seed for case in converting), stock(alone, "xnnpack"), strict=True))
    for case in found:
        answer = converted.get(case.seed, [case.fed[0]])
        assert not isinstance(answer, str), f"{case}: {answer}"
        if kernel == "to_blocks":
            expected = to_blocks(answer[0], case.outputs[0].shape[-1], case.outputs[0].zero_point)
        else:
            expected = from_blocks(answer[0], case.outputs[0].shape[-1])
        assert np.ascontiguousarray(expected).tobytes() == case.made[0].tobytes(), f"{case}"
