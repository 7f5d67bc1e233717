# SPDX-License-Identifier: Apache-2.0
"""The manifest of the C kernels as a support table, so that one mechanism judges NPUs and our own kernels."""

from __future__ import annotations

from edgedeploy_partitioner.support.verdicts import NEON as NEON
from edgedeploy_profiles.schema import Backend, Kernels, Requirement, Rule

LIBRARY = "libedgedeploy.so"
DELEGATE = "edgedeploy"
SOC = "any"


def kernel_table(manifest: Kernels) -> Backend:
    """One row per kernel; ``docs/adding-an-npu.md`` explains what its ``require`` may say."""
    return Backend(
        schema="edgedeploy.backend/1",
        name=NEON,
        title="the C library",
        sdk_version=manifest.schema.removeprefix("edgedeploy."),
        sources=manifest.sources,
        delegate=DELEGATE,
        library=LIBRARY,
        cost_model=NEON,
        kernels=tuple(kernel.name for kernel in manifest.kernels),
        layouts={},
        socs=(SOC,),
        rules=tuple(
            Rule(
                maps_to=dict.fromkeys(kernel.ops, kernel.name),
                source=kernel.source,
                kernel=kernel.name,
                require={"element_types": list(kernel.dtypes), **kernel.require},
                fusion=kernel.fusion,
            )
            for kernel in manifest.kernels
        ),
        every_op=(
            Requirement({"static_shapes": True, "no_empty_tensors": True, "dense": True}, "assumed: the kernels read"
                        " plain buffers of the size that they are prepared for"),
            Requirement({"unpacked_from": ["float16", "int8", "uint8", "int16"]},
                        "kernels_neon/src/delegate/unpack.c: the constants that the library unpacks"),
        ),
    )  # fmt: skip
