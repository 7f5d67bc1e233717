# SPDX-License-Identifier: Apache-2.0
"""Which build of the TFLite runtime allocates: its planner and its kernels changed over time, and differ by machine."""

from __future__ import annotations

import re
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, order=True)
class Release:
    """A release of the runtime. They compare by age: LiteRT took over after the last of tflite-runtime."""

    is_litert: bool
    version: tuple[int, ...]
    is_arm: bool = field(default=False, compare=False)
    """Built for arm64, else for x86-64."""
    is_switched: bool = field(default=False, compare=False)
    """``libedgedeploy.so`` applies XNNPACK, as a plan says (``--xnnpack switch``)."""

    @staticmethod
    def of(name: str, version: str, machine: str = "x86_64", *, is_switched: bool = False) -> Release:
        numbers = tuple(int(n) for n in re.findall(r"\d+", version))
        return Release(name != "tflite-runtime", numbers, machine == "aarch64", is_switched)

    @property
    def prepares_first(self) -> bool:
        """The built-in kernels prepare every op before XNNPACK claims any."""
        return self < LITERT_2_1 and not self.is_switched


TFLITE_2_14 = Release.of("tflite-runtime", "2.14.0")
LITERT_2_1 = Release.of("ai-edge-litert", "2.1.0")
LITERT_2_3 = Release.of("ai-edge-litert", "2.3.0")
