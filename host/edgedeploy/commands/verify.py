# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgedeploy import options as o

if TYPE_CHECKING:
    from edgedeploy.measure.session import Session
    from edgedeploy.measure.verify import Verified

MISMATCH = 1


def command(
    model: o.Runnable,
    devices: o.Devices,
    max_lsb: Annotated[
        int, typer.Option("--max-lsb", min=0, max=65_535, metavar="N", help="What a quantised output may be off by.")
    ] = 1,
    rtol: Annotated[float, typer.Option("--rtol", min=0, max=1e9, metavar="X", help="Of floats, relative.")] = 1e-3,
    atol: Annotated[float, typer.Option("--atol", min=0, max=1e30, metavar="X", help="Of floats, absolute.")] = 1e-4,
    inputs: Annotated[
        Path | None, typer.Option("--inputs", metavar="FILE.npz", help="Inputs by name. [default: random]")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**63 - 1, metavar="N", help="Of random inputs.")] = 1,
    signature: o.SignatureToRun = None,
    input_shape: o.InputShapes = None,
    threads: o.Threads = None,
    cpus: o.Cpus = None,
    deadline: o.Deadline = 60.0,
    memory_cap: o.MemoryCap = None,
    wait: o.Wait = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
) -> int:
    """Compare a model's outputs on a device with a reference.

    The reference are the kernels of the runtime itself, on the same inputs. Of a device that is not this machine the
    outputs are also compared with those of the runtime here. Exit 1 if an output is too far off.
    """
    from edgedeploy import output
    from edgedeploy.devices.registry import LOCAL
    from edgedeploy.measure.compare import Tolerance
    from edgedeploy.measure.session import Settings
    from edgedeploy.measure.subject import subject, with_advice, with_shapes_of
    from edgedeploy.measure.targets import attempts, error_json, failed, highest, reach
    from edgedeploy.measure.verify import given_inputs, seeded_inputs, verify, verify_json
    from edgedeploy.report.page import style_for
    from edgedeploy.report.verify import verify_report

    what = subject(model, signature, o.parse_shapes(input_shape or ()))
    values = given_inputs(inputs) if inputs else seeded_inputs(what, seed)
    what = with_shapes_of(what, {each: value.shape for each, value in values.items()})
    settings = Settings(
        model=what.file,
        delegate=what.delegate,
        plan=what.edp,
        threads=threads or 0,
        cpus=cpus or "",
        deadline_s=deadline,
        memory_bytes=o.parse_limit(memory_cap, "--memory-cap") or 0,
        wait=wait,
        signature=what.key,
        shapes=what.shapes,
    )
    known_seed = None if inputs else seed
    tolerance = Tolerance(max_lsb, rtol, atol)

    def verified(session: Session) -> Verified:
        if session.device == LOCAL:
            with with_advice(what):
                return verify(session, what, settings, values, tolerance, seed=known_seed)
        with with_advice(what), reach(LOCAL) as host:
            return verify(session, what, settings, values, tolerance, seed=known_seed, host=host)

    with output.progress(f"running {model.name} on {devices}", quiet=quiet) as tell, output.stoppable():
        results = attempts(o.device_list(devices), verified, tell)
    done = [result for result in results.values() if not isinstance(result, Exception)]
    if as_json:
        entries = [error_json(n, r) if isinstance(r, Exception) else verify_json(r) for n, r in results.items()]
        output.emit_json(entries[0] if len(entries) == 1 else entries)
    elif done:
        output.emit("\n".join(verify_report(each, style_for(quiet=quiet, verbose=verbose)) for each in done))
    codes = [failed(result) for result in results.values() if isinstance(result, Exception)]
    for each in done:
        if not each.ok:
            output.say(f"mismatch on {each.device}: {each.subject.name} does not compute what the runtime's kernels do")
            codes.append(MISMATCH)
    return highest(codes, len(results))
