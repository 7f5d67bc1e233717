# SPDX-License-Identifier: Apache-2.0
"""What a TFLite interpreter will really execute, read from the runtime itself without a compiler.

A delegate may look at the whole graph while it is applied. This one is made with ctypes, looks and claims nothing
(:func:`executed_plans`), or makes given claims with kernels that do nothing (:func:`apply_claims`), to see how the
runtime orders a partitioned graph.

``python -m edgedeploy_agent.inspector`` answers a list of requests, one JSON object a line, in forked children: a
model that crashes or hangs the runtime is an answer, not an accident.

    {"path": "m.tflite" (or "base64"), "xnnpack": true, "run": false, "claims": {"0": [[1, 2], [4]]}, "deadline_s": 10}
    {"subgraphs": [{"subgraph": 0, "nodes": [...], "tensors": [...]}], "refusal": ""} or {"signal": "SIGSEGV"}

With "library" and "plan" (in base64) libedgedeploy.so carries out that plan. Without "subgraphs" the model did not
load, and "refusal" says why. With "compare": true what the runtime refuses, or dies of, is tried once more without
XNNPACK and the library, and the answer to that is added as "without_xnnpack"; what it dies of is also tried without
"run", and added as "not_run".
"""

from __future__ import annotations

import base64
import contextlib
import ctypes as c
import itertools
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from edgedeploy_agent import tflite_abi as abi
from edgedeploy_agent.runtime import plan_delegate

Claims = Mapping[int, Sequence[Sequence[int]]]
"""Per subgraph, replace calls in order, each a list of op indices."""


class PlannedTensor(NamedTuple):
    """A tensor as allocated: ``type`` is the TfLiteType number, ``address`` 0 when it has no memory."""

    type: int
    shape: tuple[int, ...]
    allocation: str
    bytes: int
    address: int
    is_variable: bool


class PlannedNode(NamedTuple):
    """One step of the execution plan. ``op`` is the op's index in the file, or a new one for a delegate node.

    ``code`` is the builtin operator number, ``name`` the custom or delegate name; ``members`` are the ops that a
    delegate node replaces, in the order the runtime chose (None for an ordinary op).
    """

    op: int
    code: int
    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    temporaries: tuple[int, ...]
    members: tuple[int, ...] | None


class SubgraphPlan(NamedTuple):
    subgraph: int
    nodes: tuple[PlannedNode, ...]
    tensors: tuple[PlannedTensor, ...]


def executed_plans(interpreter: Any) -> tuple[SubgraphPlan, ...]:
    """The execution plan of every subgraph of ``interpreter``, as it is now.

    Before ``allocate_tensors()``: the file's ops. After it: what runs, XNNPACK applied, with temporaries and
    addresses. Raises RuntimeError if the runtime refuses.
    """
    plans: dict[int, SubgraphPlan] = {}

    def look(context: Any) -> None:
        if not plans:  # the first call sees them all
            plans.update((index, _read_plan(index, subgraph)) for index, subgraph in _subgraphs(context))

    _apply(interpreter, look)
    return tuple(plans[i] for i in sorted(plans))


def arena_sizes(interpreter: Any) -> list[tuple[int, int]] | None:
    """Bytes of the arena and of the persistent arena of each subgraph, by where their tensors lie after allocation.

    None where the runtime cannot be looked into.
    """
    try:
        plans = executed_plans(interpreter)
    except RuntimeError:
        return None
    return [(_extent(p.tensors, "arena_rw"), _extent(p.tensors, "arena_rw_persistent")) for p in plans]


def _extent(tensors: Iterable[PlannedTensor], allocation: str) -> int:
    held = [t for t in tensors if t.allocation == allocation and t.address and t.bytes]
    return max(t.address + t.bytes for t in held) - min(t.address for t in held) if held else 0


def apply_claims(interpreter: Any, claims: Claims) -> None:
    """Claim ops as a delegate does: per subgraph, one replace call for each list of op indices, in order.

    Call it before ``allocate_tensors()``, so that XNNPACK takes what remains. The claimed partitions compute nothing.
    """

    def claim(context: Any) -> None:
        index = next(i for i, subgraph in _subgraphs(context) if c.addressof(subgraph) == c.addressof(context))
        for ops in claims.get(index, ()):
            nodes = (c.c_int * (len(ops) + 1))(len(ops), *ops)
            status = context.ReplaceNodeSubsetsWithDelegateKernels(
                c.byref(context), _NOTHING, c.cast(nodes, c.c_void_p), c.addressof(delegate)
            )
            if status:
                raise RuntimeError(f"subgraph {index}: the runtime refused to replace {list(ops)}")

    delegate = _make_delegate(claim)
    _apply_delegate(interpreter, delegate)


_NOTHING = abi.Registration(
    init=abi.INIT(lambda *_: None),
    prepare=abi.STEP(lambda *_: 0),
    invoke=abi.STEP(lambda *_: 0),
    builtin_code=abi.DELEGATE_OP,
    custom_name=b"EdgedeployClaim",
    version=1,
)


def _make_delegate(action: Callable[[Any], None]) -> Any:
    """A delegate that runs ``action(context)`` for each subgraph; its ``error`` holds what ``action`` raised."""

    def prepare(context: Any, delegate: Any) -> int:
        del delegate
        try:
            action(context.contents)
        except Exception as error:  # an exception cannot cross the C frames
            made.error = error
            return 1
        return 0

    made = abi.Delegate(Prepare=abi.PREPARE(prepare), flags=abi.ALLOW_DYNAMIC_TENSORS)
    made.error = None
    return made


def _apply(interpreter: Any, action: Callable[[Any], None]) -> None:
    _apply_delegate(interpreter, _make_delegate(action))


def _apply_delegate(interpreter: Any, delegate: Any) -> None:
    abi.check()
    # The runtime keeps the pointer for as long as the interpreter lives.
    interpreter.__dict__.setdefault("_edgedeploy_delegates", []).append(delegate)
    try:
        interpreter._interpreter.ModifyGraphWithDelegate(c.addressof(delegate))
    except RuntimeError:
        if delegate.error is None:
            raise
    if delegate.error is not None:
        raise delegate.error


def _subgraphs(context: Any) -> Iterator[tuple[int, Any]]:
    """Every subgraph's index and context, readable for one step of the loop. The end is reported as an error."""
    pointer = abi.ContextPointer()
    for index in itertools.count():
        if context.AcquireSubgraphContext(c.byref(context), index, c.byref(pointer)):
            return
        try:
            yield index, pointer.contents
        finally:
            if c.addressof(pointer.contents) != c.addressof(context):
                context.ReleaseSubgraphContext(c.byref(context), index)


def _read_plan(index: int, context: Any) -> SubgraphPlan:
    plan = c.c_void_p()
    if context.GetExecutionPlan(c.byref(context), c.byref(plan)):
        raise RuntimeError(f"subgraph {index}: the runtime gives no execution plan")
    tensors = (context.tensors[i] for i in range(context.tensors_size))
    return SubgraphPlan(
        index, tuple(_read_node(context, i) for i in _ints(plan.value)), tuple(_read_tensor(t) for t in tensors)
    )


def _read_node(context: Any, index: int) -> PlannedNode:
    node_pointer, registration_pointer = c.POINTER(abi.Node)(), c.POINTER(abi.Registration)()
    if context.GetNodeAndRegistration(c.byref(context), index, c.byref(node_pointer), c.byref(registration_pointer)):
        raise RuntimeError(f"the runtime does not give node {index}")
    node, registration = node_pointer.contents, registration_pointer.contents
    members = None
    if registration.builtin_code == abi.DELEGATE_OP and node.builtin_data:
        params = c.cast(node.builtin_data, c.POINTER(abi.DelegateParams)).contents
        members = _ints(params.nodes_to_replace)
    return PlannedNode(
        index,
        registration.builtin_code,
        (registration.custom_name or b"").decode("utf-8", "replace"),
        _ints(node.inputs),
        _ints(node.outputs),
        _ints(node.temporaries),
        members,
    )


def _read_tensor(tensor: Any) -> PlannedTensor:
    return PlannedTensor(
        tensor.type,
        _ints(tensor.dims),
        abi.ALLOCATION_TYPES[tensor.allocation_type],
        tensor.bytes,
        tensor.data or 0,
        tensor.is_variable,
    )


def _ints(array: int | None) -> tuple[int, ...]:
    """A TfLiteIntArray: its length, then its values."""
    if not array:
        return ()
    values = c.cast(array, c.POINTER(c.c_int))
    return tuple(values[1 : values[0] + 1])


# --- the program -----------------------------------------------------


def _runtime() -> Any:
    try:
        from ai_edge_litert import interpreter
    except ImportError:
        from tflite_runtime import interpreter
    return interpreter


def _write_zeros(interpreter: Any) -> None:
    """Into what can be written: texts, resources and 4 bits stay as they are."""
    for tensor in interpreter.get_input_details():
        with contextlib.suppress(TypeError, ValueError):
            interpreter.set_tensor(tensor["index"], np.zeros(tensor["shape"], tensor["dtype"]))


def inspect_model(
    model: bytes,
    *,
    xnnpack: bool = True,
    claims: Claims | None = None,
    run: bool = False,
    threads: int = 1,
    library: str = "",
    plan: bytes = b"",
) -> tuple[tuple[SubgraphPlan, ...], str]:
    """Load ``model`` in this process, have ``library`` carry out ``plan`` (a plan.edp), make ``claims``, allocate, and
    with ``run`` invoke it once on zeros.

    Returns the plans, and the runtime's message if it refused to allocate or to run: claims are made before that,
    so the plans show them all the same. Raises ValueError or RuntimeError if the model does not load. A bad model
    may end the process.
    """
    runtime = _runtime()
    resolver = runtime.OpResolverType.AUTO if xnnpack else runtime.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    delegates = [_plan_delegate(runtime, library, plan, threads)] if library else None
    interpreter = runtime.Interpreter(
        model_content=model,
        experimental_op_resolver_type=resolver,
        num_threads=threads,
        experimental_delegates=delegates,
    )
    if claims:
        apply_claims(interpreter, claims)
    refusal = ""
    try:
        interpreter.allocate_tensors()
        if run:
            _write_zeros(interpreter)
            interpreter.invoke()
    except (RuntimeError, ValueError) as error:
        refusal = str(error)
    return executed_plans(interpreter), refusal


def _plan_delegate(runtime: Any, library: str, plan: bytes, threads: int) -> Any:
    file = os.memfd_create("plan")
    try:
        os.write(file, plan)
        return plan_delegate(runtime, library, f"/proc/self/fd/{file}", "/dev/null", threads)
    finally:
        os.close(file)


def _answer(request: Mapping[str, Any]) -> dict[str, Any]:
    claims = {int(subgraph): calls for subgraph, calls in request.get("claims", {}).items()}
    try:
        model = base64.b64decode(request["base64"]) if "base64" in request else _contents(request["path"])
        plans, refusal = inspect_model(
            model,
            xnnpack=request.get("xnnpack", True),
            claims=claims,
            run=request.get("run", False),
            threads=request.get("threads", 1),
            library=request.get("library", ""),
            plan=base64.b64decode(request.get("plan", "")),
        )
    except (RuntimeError, ValueError, OSError) as error:
        return {"refusal": str(error)}
    subgraphs = [
        {"subgraph": p.subgraph, "nodes": [n._asdict() for n in p.nodes], "tensors": [t._asdict() for t in p.tensors]}
        for p in plans
    ]
    return {"subgraphs": subgraphs, "refusal": refusal}


def _contents(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _answer_and_compare(request: Mapping[str, Any]) -> dict[str, Any]:
    answer = _answer(request)
    if request.get("compare") and answer["refusal"]:
        answer["without_xnnpack"] = _answer(_without_xnnpack(request))
    return answer


def _without_xnnpack(request: Mapping[str, Any]) -> dict[str, Any]:
    return {**request, "xnnpack": False, "library": ""}


def _in_child(requests: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Answers of one forked process, in order: to all requests, or up to and including the one that ended it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        with os.fdopen(writer, "w") as out:
            for request in requests:
                signal.alarm(int(request.get("deadline_s", 10)))
                print(json.dumps(_answer_and_compare(request)), file=out, flush=True)
        os._exit(0)
    os.close(writer)
    answered = 0
    with os.fdopen(reader) as answers:
        for line in answers:
            answered += 1
            yield json.loads(line)
    status = os.waitpid(child, 0)[1]
    if answered < len(requests):
        if os.WIFSIGNALED(status):
            yield {"signal": signal.Signals(os.WTERMSIG(status)).name}
        else:
            yield {"refusal": f"exit status {os.WEXITSTATUS(status)}"}


def _answers(requests: list[dict[str, Any]], batch: int) -> Iterator[dict[str, Any]]:
    """Answers in order. What ends a process that had done others before is asked again in one of its own."""
    while requests:
        answered = 0
        for answer in _in_child(requests[:batch]):
            if "signal" in answer and answered:
                break
            if "signal" in answer and requests[0].get("compare"):
                alone = {**requests[0], "compare": False}
                [answer["without_xnnpack"]] = _in_child([_without_xnnpack(alone)])
                [answer["not_run"]] = _in_child([{**alone, "run": False}])
            yield answer
            answered += 1
        del requests[:answered]


def main() -> None:
    """Answer the requests on standard input, one line each; ``--batch N`` puts up to N in one process."""
    batch = int(sys.argv[2]) if sys.argv[1:2] == ["--batch"] else 1
    _runtime()  # once, before the first fork
    for answer in _answers([json.loads(line) for line in sys.stdin], batch):
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
