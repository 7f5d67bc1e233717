# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgedeploy import options as o

if TYPE_CHECKING:
    from edgedeploy.measure.bench import Bench

NOT_VALID = 5
MOST_RUNS = 10**9


def command(
    model: o.Runnable,
    devices: o.Devices,
    runs: Annotated[
        int | None,
        typer.Option(
            "--runs", min=1, max=MOST_RUNS, metavar="N", help="Warm runs. [default: until the median is known]"
        ),
    ] = None,
    min_time: Annotated[
        float | None, typer.Option("--min-time", min=0.001, max=o.MOST_S, metavar="S", help="Seconds of warm runs.")
    ] = None,
    warmup: Annotated[
        int, typer.Option("--warmup", min=0, max=MOST_RUNS, metavar="N", help="Runs after the first that do not count.")
    ] = 3,
    signature: o.SignatureToRun = None,
    input_shape: o.InputShapes = None,
    threads: o.Threads = None,
    cpus: o.Cpus = None,
    governor: Annotated[
        str | None,
        typer.Option(
            "--set-governor", metavar="NAME", help="Set this frequency governor meanwhile, as root on the device."
        ),
    ] = None,
    cooldown: Annotated[
        float | None,
        typer.Option(
            "--cooldown",
            min=-100,
            max=1000,
            metavar="C",
            help="Wait, 5 minutes at most, until it is no hotter than C degrees.",
        ),
    ] = None,
    inputs: Annotated[
        Path | None, typer.Option("--inputs", metavar="FILE.npz", help="Inputs by name. [default: random]")
    ] = None,
    memory: Annotated[bool, typer.Option("--memory", help="Measure memory, too.")] = False,
    require_valid: Annotated[
        bool, typer.Option("--require-valid", help="Exit 5 if the measurement cannot be trusted.")
    ] = False,
    deadline: o.Deadline = 60.0,
    memory_cap: o.MemoryCap = None,
    wait: o.Wait = False,
    file: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Also write the JSON to a file.")
    ] = None,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
) -> int:
    """Measure how fast a model, or a bundle, runs on a device.

    Loading, the first run and warm runs are told apart. The measurement goes on until the median is known to 1%, or
    for 10 seconds; its verdict says whether clocks, heat and other programs leave it to be trusted.
    """
    import dataclasses

    from edgedeploy import output
    from edgedeploy.files import check_place, write_whole
    from edgedeploy.measure.bench import Extent, bench, bench_json
    from edgedeploy.measure.prediction import prediction
    from edgedeploy.measure.session import Session, Settings
    from edgedeploy.measure.subject import subject, with_advice, with_shapes_of
    from edgedeploy.measure.targets import attempts, board_of, error_json, failed, highest
    from edgedeploy.measure.verify import given_inputs
    from edgedeploy.report.bench import bench_report
    from edgedeploy.report.bench_table import bench_table
    from edgedeploy.report.page import style_for

    if runs is not None and min_time is not None:
        raise typer.BadParameter("--runs and --min-time exclude each other")
    if file is not None:
        check_place("-o", file)
    names = o.device_list(devices)
    what = subject(model, signature, o.parse_shapes(input_shape or ()))
    if inputs is not None:
        what = with_shapes_of(what, {each: value.shape for each, value in given_inputs(inputs).items()})
    settings = Settings(
        model=what.file,
        delegate=what.delegate,
        plan=what.edp,
        inputs=inputs,
        threads=threads or 0,
        cpus=cpus or "",
        deadline_s=deadline,
        memory_bytes=o.parse_limit(memory_cap, "--memory-cap") or 0,
        wait=wait,
        signature=what.key,
        shapes=what.shapes,
    )
    extent = Extent(runs or 0, min_time or 0.0, warmup)

    def measured(session: Session) -> Bench:
        with with_advice(what):
            found = bench(session, what, settings, extent, memory=memory, governor=governor or "", cool_c=cooldown)
        return dataclasses.replace(found, plan=prediction(found, board_of(session.device), cpus))

    with output.progress(f"running {model.name} on {devices}", quiet=quiet) as tell, output.stoppable():
        results = attempts(names, measured, tell)
    entries = [error_json(n, r) if isinstance(r, Exception) else bench_json(r) for n, r in results.items()]
    encoded = output.json_bytes(entries[0] if len(entries) == 1 else entries)
    done = [result for result in results.values() if not isinstance(result, Exception)]
    if as_json:
        output.emit(encoded)
    elif done:
        style = style_for(quiet=quiet, verbose=verbose)
        pieces = [bench_table(results, style)] if len(results) > 1 else []
        pieces += [bench_report(each, style) for each in done] if len(results) == 1 or verbose else []
        output.emit("\n".join(pieces))
    if file is not None:
        write_whole(file, encoded)
    codes = [failed(result) for result in results.values() if isinstance(result, Exception)]
    for each in done if require_valid else ():
        if each.verdict != "valid":
            output.say(f"not valid on {each.device}: {each.verdict}: {'; '.join(each.reasons)}")
            codes.append(NOT_VALID)
    return highest(codes, len(results))
