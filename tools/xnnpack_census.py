# SPDX-License-Identifier: Apache-2.0
"""Take the census of the XNNPACK inside a TFLite runtime: which ops it claims, and in which circumstances.

    python tools/xnnpack_census.py here --out FILE [--python P]    for the runtime of this Python, or of P
    python tools/xnnpack_census.py here --out FILE [--python P] --library libedgedeploy.so    as that switches it on

or, for another machine, in three steps, the middle one there, which needs only the agent and the runtime:

    python tools/xnnpack_census.py models models.jsonl
    python -m edgedeploy_agent.inspector --batch 200 < models.jsonl > answers.jsonl
    python tools/xnnpack_census.py table models.jsonl answers.jsonl --name N --version V --taken-on TEXT --out FILE

For an existing table only the kernels, with or without XNNPACK, can be taken anew:

    python tools/xnnpack_census.py kernels --out FILE [--python P]

The table generalises what was seen (see ``census_learn.py``) and is written only if it gives back every observation.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import os
import platform
import random
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from census_cases import Case, Operand, variations
from census_graphs import RULES, kernel_models, rule_models
from census_learn import Observation, Verdict, conflicts, learn, toml_list, toml_rows
from census_ops import UNPACKING, base_cases, grid_cases
from edgedeploy_agent import inspector, trial
from edgedeploy_partitioner.edp import switching
from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.model.fingerprint import fingerprints
from edgedeploy_partitioner.model.read import read_bytes
from edgedeploy_partitioner.model.shapes.site import ShapeMismatch
from edgedeploy_partitioner.model.shapes.walk import result_shapes
from edgedeploy_partitioner.runtime.census_key import Key, key_of, unpacked_as

_PER_KEY = 2  # models with the same key, to see whether they are treated alike
_PAIRS = 100  # random pairs of variations of the first base case of an op and types
_OF_OTHERS = 15  # variations, and pairs, of its further base cases
_SHOWN = 40
# How TFLite says that it has no kernel, or none of that version. Any other complaint is of a kernel that is there.
_NO_KERNEL = re.compile(r"Didn't find op for builtin|unresolved custom op|builtin_code out of range")


def models() -> Iterator[dict[str, Any]]:
    """Requests to the inspector: single ops with XNNPACK and without, graphs, and ops to see if there is a kernel."""
    yield from op_requests(_cases(random.Random(0)))
    yield from _rule_requests()
    yield from kernel_requests()


def switched_models(library: Path) -> Iterator[dict[str, Any]]:
    """The same for XNNPACK as ``library`` applies it, but for the kernels: it looks at results as they are stored, and
    its 8-bit kernels of 2.14 take other quantisation than those that the first cases have."""
    ops = op_requests(_cases(random.Random(0), of_quantisation=True), fitted_too=True)
    yield from (switched(request, library) for request in chain(ops, _rule_requests()))


def _rule_requests() -> Iterator[dict[str, Any]]:
    for rule, model in rule_models().items():
        yield {**_request("rule", model), "rule": rule}


def kernel_requests() -> Iterator[dict[str, Any]]:
    for name, version, model in kernel_models():
        yield {**_request("kernel", model), "name": name, "version": version, "xnnpack": False}


def switched(request: Mapping[str, Any], library: Path) -> dict[str, Any]:
    """The same of XNNPACK as ``library`` applies it, and none after it."""
    plan = switching(fingerprints(read_bytes(base64.b64decode(request["base64"]))))
    return {**request, "xnnpack": False, "library": str(library), "plan": base64.b64encode(plan).decode()}


def op_requests(cases: Iterable[Case], *, fitted_too: bool = False) -> Iterator[dict[str, Any]]:
    """Requests for ``cases``, of those with equal keys and sources only the first few. ``fitted_too``: those whose
    results are stored otherwise than they follow also as they would be."""
    seen: Counter[str] = Counter()
    fitted: list[Case] = []
    for case in cases:
        try:
            model = case.build()
            key = _key(model)
        except (InputError, ValueError, OverflowError):
            continue  # nothing that could be written or read
        alike = repr((key, [operand.source for operand in case.inputs]))
        seen[alike] += 1
        if seen[alike] <= _PER_KEY:
            yield {**_request("op", model), "label": f"{case.op} {case.label}", "run": True, "compare": True}
            yield from _with_reader(case)
            if fitted_too and key.features.get("result_fits") is False:
                fitted += _fitted(case, model)
    if fitted:
        yield from op_requests(fitted)


def _fitted(case: Case, model: bytes) -> Iterator[Case]:
    """The case with results of the shapes that follow from its operands, if any do."""
    graph = read_bytes(model)
    with contextlib.suppress(ShapeMismatch):
        shapes = result_shapes(graph, graph.subgraphs[0].ops[-1]) or ()
        if len(shapes) == len(case.outputs):
            outputs = tuple(replace(o, shape=tuple(shape)) for o, shape in zip(case.outputs, shapes, strict=True))
            yield replace(case, outputs=outputs, label=f"{case.label}; fitted")


def _with_reader(case: Case) -> Iterator[dict[str, Any]]:
    """Whether what an unpacking op writes counts as constant: an op is added for which XNNPACK then leaves it."""
    if case.op in UNPACKING and len(case.outputs) == 1:
        with contextlib.suppress(ValueError):  # nothing reads such weights
            yield _request("reader", case.build(with_reader=True))


def _request(about: str, model: bytes) -> dict[str, Any]:
    return {"about": about, "base64": base64.b64encode(model).decode()}


def _cases(rng: random.Random, *, of_quantisation: bool = False) -> Iterator[Case]:
    """Good models first: of those with the same key only some are tried. All variations are of the first case of each
    op and types, and ``of_quantisation`` by tensor and by channel, and some of the others."""
    yield from base_cases()
    yield from grid_cases()
    first: set[tuple[str, str]] = set()
    for case in base_cases():
        group = case.op, " ".join(_kind(o, of_quantisation) for o in (*case.inputs, *case.outputs))
        varied = list(variations(case))
        whole = group not in first or case.op in UNPACKING
        yield from varied if whole else rng.sample(varied, min(_OF_OTHERS, len(varied)))
        for once in rng.choices(varied, k=_OF_OTHERS if group in first else _PAIRS):
            yield rng.choice([once, *variations(once)])
        first.add(group)


def _kind(operand: Operand, of_quantisation: bool) -> str:
    if operand.source == "-":
        return "-"
    scales = len(operand.quant.scales) if of_quantisation and operand.quant is not None else 0
    return operand.dtype + ("" if scales < 1 else " by channel" if scales > 1 else " by tensor")


def _key(model: bytes) -> Key:
    """The key of the last op; what the ops before it make of constants counts as constant."""
    graph = read_bytes(model)
    main = graph.subgraphs[0]
    *before, op = main.ops
    unpacked = (t for earlier in before if earlier.code in UNPACKING for t in earlier.outputs)
    return key_of(graph, op, {t: unpacked_as(main, t, range(len(main.ops))) for t in unpacked})


def observations(asked: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> Iterator[Observation]:
    """From requests and answers to what XNNPACK did with each op. A reader follows the op whose output it reads."""
    last: Observation | None = None
    for request, answer in asked:
        if request["about"] == "reader":
            if last is not None and last.verdict != "leaves" and _left_with_reader(answer):
                last = last._replace(verdict="unpacks")
            elif last is not None and last.verdict == "fails" and answer.get("refusal") == "":
                last = None  # it fails alone, and the reader kept XNNPACK from it: nothing is said of other readers
            continue
        if last is not None:
            yield last
        verdict = _verdict(answer) if request["about"] == "op" else None
        last = verdict and Observation(
            _key(base64.b64decode(request["base64"])), verdict, request["label"], "signal" in answer
        )


def _without_chance(seen: Sequence[Observation]) -> list[Observation]:
    """Without those that died where others with the same key ran: what is written past a buffer kills by chance."""
    ran = {repr(s.key) for s in seen if s.verdict == "takes"}
    return [s for s in seen if not s.died or repr(s.key) not in ran]


def _last_is_claimed(answer: Mapping[str, Any]) -> bool:
    left = {n["op"] for n in _nodes(answer) if n["members"] is None}
    return max(_claimed(answer), default=-1) > max(left, default=-1)


def _left_with_reader(answer: Mapping[str, Any]) -> bool:
    """Whether of what XNNPACK looked at it left the op that reads, and the one before."""
    left = {n["op"] for n in _nodes(answer) if n["members"] is None}
    last = max((*left, *_claimed(answer)), default=0)
    return bool(_claimed(answer)) and {last - 1, last} <= left


def _claimed(answer: Mapping[str, Any]) -> set[int]:
    return {i for n in _nodes(answer) for i in n["members"] or ()}


def _is_dynamic(answer: Mapping[str, Any]) -> bool:
    """Whether an op gives its result a size only as it runs: some runtimes then leave XNNPACK out."""
    tensors = answer["subgraphs"][0]["tensors"]
    return any(tensors[t]["allocation"] == "dynamic" for n in _nodes(answer) for t in n["outputs"] if t >= 0)


def _nodes(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    return answer["subgraphs"][0]["nodes"] if "subgraphs" in answer else []


def _verdict(answer: Mapping[str, Any]) -> Verdict | None:
    """None if nothing can be said: the model is bad, and the runtime refuses it with XNNPACK or without, or it kept
    XNNPACK from looking at it."""
    without = answer.get("without_xnnpack", {})
    failed: Verdict | None = "fails" if without.get("subgraphs") and not without["refusal"] else None
    if "subgraphs" not in answer:  # an abort is how a heap that was damaged shows, by chance: no proof of anything
        died_running = "subgraphs" in answer.get("not_run", {}) and not _last_is_claimed(answer["not_run"])
        return None if died_running or answer.get("signal") == "SIGABRT" else failed
    if not _claimed(answer):  # not even the op that it always takes
        return failed if answer["refusal"] else None if _is_dynamic(answer) else "undoes"
    if not _last_is_claimed(answer):
        return "leaves"
    return failed if answer["refusal"] else "takes"


def table(
    asked: list[tuple[dict[str, Any], dict[str, Any]]], name: str, version: str, taken_on: str, *, is_switched: bool
) -> str:
    """The runtime's profile as TOML, or its ``edgedeploy.switched/1``. Exits when an observation is not given back."""
    seen = _without_chance(list(observations(asked)))
    rows = learn(seen)
    lost = conflicts(seen, rows)
    boxes = Counter((row.op, types) for row in rows if row.verdict == "takes" for types in row.types)
    for (op, types), count in boxes.most_common():
        if count > 1:
            print(f"  {op} {types}: taken in {count} separate boxes, maybe a feature is missing", file=sys.stderr)
    counts = dict(Counter(s.verdict for s in seen))
    print(f"{len(seen)} observations {counts}, {len(rows)} rows, {len(lost)} lost", file=sys.stderr)
    for observation in lost[:_SHOWN]:
        print(f"  {observation.verdict}: {observation.label} {observation.key}", file=sys.stderr)
    if lost:
        sys.exit("the keys do not tell apart what XNNPACK does; add a feature to census_features.py")
    rules = {r["rule"]: RULES[r["rule"]](a) for r, a in asked if r["about"] == "rule"}
    runtime = name, version, f"{taken_on}, {len(seen)} single-op models"
    kernels = None if is_switched else _kernels(asked)
    return _toml(runtime, {s.key.op for s in seen}, kernels, rules) + "\n" + toml_rows(rows)


def with_kernels(text: str, asked: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> str:
    """The profile ``text`` with the kernels taken anew."""
    old = tomllib.loads(text)
    rules = {rule: (old | old["graph_rules"])[rule] for rule in RULES}
    runtime = old["name"], old["version"], old["taken_on"]
    return _toml(runtime, set(old["tried"]), _kernels(asked), rules) + "\n" + text[text.index("[[census]]") :]


def _kernels(asked: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> dict[str, int]:
    """The newest version of each op that the runtime has a kernel for."""
    found: dict[str, int] = {}
    for request, answer in asked:
        if request["about"] == "kernel" and not _NO_KERNEL.search(answer.get("refusal", "")):
            found[request["name"]] = max(found.get(request["name"], 0), request["version"])
    return found


def with_baseline(text: str, old: str) -> str:
    """``text`` with what no census here takes of the profile ``old``: the baseline, and what arm64 was seen to do."""
    for line in re.findall(r"^(?:baseline(?:_bytes)?|census_aarch64) = .*$", old, re.MULTILINE):
        after = 'source = "census"\n' if line.startswith("baseline_bytes") else "[sources]\n"
        text = text.replace(after, f"{after}{line}\n", 1)
    return text


def _write(out: Path, text: str) -> None:
    out.write_text(with_baseline(text, out.read_text()) if out.exists() else text)


def _toml(
    runtime: tuple[str, str, str], seen: Collection[str], kernels: Mapping[str, int] | None, rules: dict[str, bool]
) -> str:
    """``seen`` are the ops that XNNPACK was asked about. Without ``kernels`` it is of a runtime with the switch on."""
    name, version, taken_on = runtime
    builtin = {k: v for k, v in sorted((kernels or {}).items()) if k.isupper()}
    is_default = str(rules.pop("xnnpack_default")).lower()
    own = [
        f"builtin_kernels = {toml_list(builtin)}",
        f"custom_kernels = {toml_list(sorted(set(kernels or {}) - set(builtin)))}",
        f"tried = {toml_list(sorted({*seen, *builtin}))}",
    ]
    versions = ["[kernel_versions]", *(f"{op} = {newest}" for op, newest in builtin.items()), ""]
    how = "" if kernels else ", with XNNPACK applied by libedgedeploy.so,"
    lines = [
        "# SPDX-License-Identifier: Apache-2.0",
        "# Written by tools/xnnpack_census.py; take it anew instead of editing it.",
        f'schema = "edgedeploy.{"runtime" if kernels else "switched"}/1"',
        f'name = "{name}"',
        f'version = "{version}"',
        *([f"xnnpack_default = {is_default}"] if kernels else []),
        f'taken_on = "{taken_on}"',
        'source = "census"',
        *(own if kernels else []),
        "",
        "[sources]",
        f'census = "claims read from {name} {version} itself{how} through the delegate interface"',
        "",
        "[graph_rules]",
        *(f"{rule} = {str(holds).lower()}" for rule, holds in sorted(rules.items())),
        "",
        *(versions if kernels else []),
    ]
    return "\n".join(lines)


def answers(requests: Iterable[Mapping[str, Any]], python: str = sys.executable) -> list[dict[str, Any]]:
    """Ask the inspector about the runtime of ``python``."""
    asked = "".join(json.dumps(r) + "\n" for r in requests)
    return [json.loads(line) for line in _run(python, "-m", inspector.__name__, "--batch", "200", stdin=asked)]


def _run(python: str, *arguments: str, stdin: str = "") -> list[str]:
    """The lines that it prints. It has the agent, and low priority."""
    done = subprocess.run(
        ["nice", "-n", "10", python, *arguments],
        input=stdin,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(Path(inspector.__file__).parents[1])},
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True,
    )  # fmt: skip
    return done.stdout.splitlines()


def _runtime_of(python: str) -> tuple[str, str]:
    """Name and version of its runtime."""
    _, name, version = _run(
        python, "-c", f"from {trial.__name__} import stock_runtime; print(*stock_runtime(), sep='\\n')"
    )
    return name, version


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _questions(library: Path | None) -> Iterator[dict[str, Any]]:
    return models() if library is None else switched_models(library)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("models").add_argument("models", type=Path)
    here, kernels, of = (verbs.add_parser(verb) for verb in ("here", "kernels", "table"))
    of.add_argument("models", type=Path)
    of.add_argument("answers", type=Path)
    for option in ("--name", "--version", "--taken-on"):
        of.add_argument(option, required=True)
    for verb in (here, kernels, of):
        verb.add_argument("--out", type=Path, required=True)
    for verb in (verbs.choices["models"], here):
        verb.add_argument("--library", type=Path, help="libedgedeploy.so, to apply XNNPACK as a plan switches it on")
    for verb in (here, kernels):
        verb.add_argument("--python", default=sys.executable, help="one with another runtime")
    args = parser.parse_args()
    if args.verb == "models":
        args.models.write_text("".join(json.dumps(r) + "\n" for r in _questions(args.library)))
    elif args.verb == "table":
        asked = list(zip(_lines(args.models), _lines(args.answers), strict=True))
        is_switched = any("library" in request for request, _ in asked)
        _write(args.out, table(asked, args.name, args.version, args.taken_on, is_switched=is_switched))
    elif args.verb == "kernels":
        asked_here = list(kernel_requests())
        _write(
            args.out, with_kernels(args.out.read_text(), zip(asked_here, answers(asked_here, args.python), strict=True))
        )
    else:
        asked_here = list(_questions(args.library))
        asked = list(zip(asked_here, answers(asked_here, args.python), strict=True))
        where = f"{platform.machine()} Linux"
        _write(args.out, table(asked, *_runtime_of(args.python), where, is_switched=args.library is not None))


if __name__ == "__main__":
    main()
