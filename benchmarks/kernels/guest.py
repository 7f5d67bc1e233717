# SPDX-License-Identifier: Apache-2.0
"""``python guest.py LIBRARY JOBS ANSWERS``: on the emulated board, run each op in the stock runtime, in our kernel, and
copy as much, with marks that the counting plugin sees (a call of ``getppid``).

Every job makes the same marks, two for each of: the stock runtime's invoke, the kernel, a plain copy; what refuses
makes them without anything between.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import sys
from pathlib import Path
from typing import Any

from ai_edge_litert import interpreter as litert


def stock(model: bytes, inputs: list[Any], resolver: str) -> str:
    """What the runtime says when it refuses."""
    try:
        chosen = litert.OpResolverType[resolver]
        interpreter = litert.Interpreter(model_content=model, experimental_op_resolver_type=chosen, num_threads=1)
        interpreter.allocate_tensors()
        for detail, value in zip(interpreter.get_input_details(), inputs, strict=True):
            interpreter.set_tensor(detail["index"], value)
        interpreter.invoke()  # XNNPACK packs and reserves in its first run
    except (RuntimeError, ValueError) as error:
        os.getppid()
        os.getppid()
        return str(error)
    os.getppid()
    interpreter.invoke()
    os.getppid()
    return ""


def main(library: str, jobs: str, answers: str) -> None:
    ours = ctypes.CDLL(library)
    found = []
    for job in pickle.loads(Path(jobs).read_bytes()):
        refused = stock(job["model"], job["inputs"], job["resolver"])
        taken = False
        if job["kernel"]:
            words = [word.encode() for word in (job["kernel"], job["variant"], job["op"])]
            taken = not ours.ed_count_kernel(*words, job["type"], job["shape"].encode())
        if not taken:
            ours.ed_count_nothing()
        ours.ed_count_copy(ctypes.c_size_t(job["bytes"]))
        found.append((refused, taken))
    Path(answers).write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
