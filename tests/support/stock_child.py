# SPDX-License-Identifier: Apache-2.0
"""``python stock_child.py JOBS ANSWERS``: run many small models in the TFLite runtime of this Python.

Alone, so that it can be run by the Python of an emulated board. JOBS is a pickled (resolver, list of (model, inputs));
ANSWERS gets a list with the outputs of each, or what the runtime said when it refused.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

from ai_edge_litert import interpreter as litert


def answer(model: bytes, inputs: list[Any], resolver: Any) -> list[Any] | str:
    try:
        interpreter = litert.Interpreter(model_content=model, experimental_op_resolver_type=resolver, num_threads=1)
        interpreter.allocate_tensors()
        for detail, value in zip(interpreter.get_input_details(), inputs, strict=True):
            interpreter.set_tensor(detail["index"], value)
        interpreter.invoke()
        return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]
    except (RuntimeError, ValueError) as error:
        return str(error)


if __name__ == "__main__":
    name, jobs = pickle.loads(Path(sys.argv[1]).read_bytes())
    chosen = litert.OpResolverType[name]
    answers = [answer(model, inputs, chosen) for model, inputs in jobs]
    Path(sys.argv[2]).write_bytes(pickle.dumps(answers))
