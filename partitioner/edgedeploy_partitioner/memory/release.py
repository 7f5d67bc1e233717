# SPDX-License-Identifier: Apache-2.0
"""Which release of the TFLite runtime allocates: its planner and its kernels changed over time."""

from __future__ import annotations

import re
from typing import NamedTuple


class Release(NamedTuple):
    """A release of the runtime. They compare by age: LiteRT took over after the last of tflite-runtime."""

    is_litert: bool
    version: tuple[int, ...]

    @staticmethod
    def of(name: str, version: str) -> Release:
        return Release(name != "tflite-runtime", tuple(int(n) for n in re.findall(r"\d+", version)))


TFLITE_2_14 = Release.of("tflite-runtime", "2.14.0")
LITERT_2_1 = Release.of("ai-edge-litert", "2.1.0")
LITERT_2_3 = Release.of("ai-edge-litert", "2.3.0")
