# SPDX-License-Identifier: Apache-2.0
"""Choose the constants of the RKNN cost model: ``python -m benchmarks.cost.fit_rknn``.

Prints what stands in the boards' ``[stacks.rknn.costs]``. Fitted are, per SoC, the fitted rows of
``published/rknn.csv`` (every other model by name), and on RK3588 also the layers of
``published/rknn_yolov5s_relu_layers.csv``. That log was taken with profiling on: its sum is 1.85 times the published
latency, yet its layers that are bound by computing run at 73 % of the peak. So a factor on overhead and memory is
fitted too, for the log alone. Its first layer, which an old toolkit ran badly, and its enlarging layers, which are
transposed convolutions there, are left out.

Coordinate search on the mean of e + 3 e^2, e = |log(predicted / published)|, so that no row is given up for the others,
with a weak pull towards the start, so that a constant that the rows say little of stays where it is plausible.
Deterministic, some ten seconds.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.cost.networks.net import Net
from benchmarks.cost.rknn import PUBLISHED, Placed, network, npu_of, placed, rows
from edgedeploy_partitioner.cost.rknn import Demand, RknnCost
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_profiles.schema import Quantity, Stack

Values = NDArray[np.float64]
Loss = Callable[[dict[str, float]], float]

START = {
    "rk3588": {
        "compute_efficiency": 0.9, "depthwise_fraction": 0.06, "op_overhead_us": 20.0, "npu_bandwidth_gb_s": 12.0,
        "move_bandwidth_gb_s": 9.0, "unhidden_share": 0.2, "lookup_ns_per_element": 0.15, "softmax_ns_per_element": 1.0,
    },
    "rk3576": {
        "compute_efficiency": 0.9, "depthwise_fraction": 0.06, "op_overhead_us": 20.0, "npu_bandwidth_gb_s": 12.0,
        "move_bandwidth_gb_s": 9.0, "unhidden_share": 0.2, "lookup_ns_per_element": 0.1, "softmax_ns_per_element": 1.0,
    },
    "rk3568": {
        "compute_efficiency": 0.9, "depthwise_fraction": 0.06, "op_overhead_us": 40.0, "npu_bandwidth_gb_s": 5.0,
        "move_bandwidth_gb_s": 4.0, "unhidden_share": 0.2, "lookup_ns_per_element": 0.3,
        "cpu_lane_ns_per_element": 30.0,
    },
}  # fmt: skip
LIMITS = {"compute_efficiency": 1.0, "unhidden_share": 1.0, "profiling": 2.5}
IMAGE_BLOCKS = (16.0, 32.0)
_PULL = 0.002
_LAYERS_WEIGHT = 0.25
_SQUARES = 3.0
_ROUNDS = 60
_INSIDE = 0.95
_DEMANDS = tuple(field.name for field in fields(Demand))


@dataclass(frozen=True)
class Table:
    """Demands of many ops, one column each, ``sums`` being where a new model starts; ``published`` in microseconds."""

    demands: dict[str, Values]
    is_fused: Values
    in_lane: Values
    """Elements of ops that run in the CPU lane, 0 for the others."""
    sums: NDArray[np.int64]
    published: Values


def times(table: Table, constants: dict[str, float]) -> Values:
    """Microseconds of every op: the product's formula on columns. A test holds the two together."""
    c, d = constants, table.demands
    rate = c["int8_macs_per_cycle"] * c["npu_clock_ghz"] * c["compute_efficiency"] * 1000
    compute = (d["macs"] + d["depthwise_macs"] / c["depthwise_fraction"]) / rate
    memory = d["bytes"] / c["npu_bandwidth_gb_s"] / 1000 + d["moved_bytes"] / c["move_bandwidth_gb_s"] / 1000
    extra = d["looked_up"] * c["lookup_ns_per_element"] / 1000 + d["normalised"] * c["softmax_ns_per_element"] / 1000
    both = np.maximum(compute, memory) + c["unhidden_share"] * np.minimum(compute, memory)
    alone = c["op_overhead_us"] + both + d["weight_bytes"] / c["npu_bandwidth_gb_s"] / 1000 + extra
    lane = c["cpu_lane_overhead_us"] + table.in_lane * c["cpu_lane_ns_per_element"] / 1000
    found: Values = np.where(table.is_fused > 0, memory + extra, np.where(table.in_lane > 0, lane, alone))
    return found


def whole(table: Table, constants: dict[str, float]) -> Values:
    """Microseconds of every model."""
    found: Values = constants["segment_handover_us"] + np.add.reduceat(times(table, constants), table.sums)
    return found


def table_of(models: Sequence[tuple[Graph, float]], npu: RknnCost) -> Table:
    """Of (graph, published microseconds)."""
    demands: list[tuple[float, ...]] = []
    fused: list[float] = []
    lane: list[float] = []
    sums: list[int] = []
    for graph, _ in models:
        sums.append(len(demands))
        for one in placed(graph, npu.stack.soc):
            demands.append(astuple(_demand(graph, one, npu)))
            fused.append(float(one.is_fused))
            elements = max(graph.tensor(0, t).elements for t in (*one.op.inputs, *one.op.outputs) if t >= 0)
            lane.append(float(elements) if one.kernel == "cpu_lane" else 0.0)
    columns = dict(zip(_DEMANDS, np.array(demands, np.float64).T, strict=True))
    published = np.array([us for _, us in models], np.float64)
    return Table(columns, np.array(fused), np.array(lane), np.array(sums, np.int64), published)


def _demand(graph: Graph, one: Placed, npu: RknnCost) -> Demand:
    """Of a fused op, what it asks for beyond its host."""
    wanted = npu.demand(graph, one.op, one.layout)
    if not one.is_fused:
        return wanted
    if one.op.code in ("ADD", "SUB"):
        return Demand(bytes=wanted.bytes / 3)  # one of two operands and a result of one size
    return Demand(looked_up=wanted.looked_up)


def layers() -> Iterator[tuple[Graph, float]]:
    """Every layer of the log as a model of its own."""
    with (PUBLISHED / "rknn_yolov5s_relu_layers.csv").open(newline="") as lines:
        for raw in csv.DictReader(lines):
            cin, height, width, cout, k, rows_out = (int(raw[n]) for n in ("cin", "hin", "win", "cout", "k", "hout"))
            net = Net(f"layer {raw['id']}")
            if raw["op"].startswith("Conv") and cin > 4:
                y = net.conv(net.input(height, width, cin), cout, k, height // rows_out)
                y = net.add(y, net.input(*net.shape(y)[1:])) if raw["op"] == "ConvReluAdd" else y
            elif raw["op"].startswith("Concat"):
                parts = int(raw["op"].removeprefix("Concat"))
                y = net.concat(*(net.input(height, width, cin // parts) for _ in range(parts)))
            elif raw["op"] == "MaxPool":
                y = net.max_pool(net.input(height, width, cin), k, 1)
            else:
                continue
            yield net.build(y), float(raw["time_us"])


@dataclass(frozen=True)
class Fit:
    """What is fitted on one board, for one ``image_channel_block``."""

    start: dict[str, float]
    fixed: dict[str, float]
    """The constants that are not fitted."""
    zoo: Table
    log: Table | None

    @staticmethod
    def of(board: str, image_block: float) -> Fit:
        npu = with_constants(npu_of(board), {"image_channel_block": image_block})
        fitted = [row for row in rows() if row.board == board and row.fitted == "yes"]
        zoo = table_of([(network(row.model, row.input, row.dtype), row.ms * 1000) for row in fitted], npu)
        log = table_of(list(layers()), npu) if board == "rk3588" else None
        start = {**START[board], **({"profiling": 1.85} if log else {})}
        return Fit(start, {name: quantity.value for name, quantity in npu.stack.costs.items()}, zoo, log)

    def errors(self, chosen: dict[str, float]) -> tuple[Values, Values]:
        """|log(predicted / published)| of the models, and of the layers."""
        constants = {**self.fixed, **chosen}
        of_models: Values = np.abs(np.log(whole(self.zoo, constants) / self.zoo.published))
        if self.log is None:
            return of_models, np.zeros(0)
        of_layers: Values = np.abs(np.log(whole(self.log, profiled(constants)) / self.log.published))
        return of_models, of_layers

    def loss(self, chosen: dict[str, float]) -> float:
        if any(chosen[name] > most for name, most in LIMITS.items() if name in chosen):
            return float("inf")
        of_models, of_layers = self.errors(chosen)
        pull = sum(float(np.log(chosen[name] / value)) ** 2 for name, value in self.start.items())
        return _mean(of_models) + (_LAYERS_WEIGHT * _mean(of_layers) if len(of_layers) else 0.0) + _PULL * pull


def fit(board: str) -> tuple[dict[str, float], float, Values]:
    """The constants, the loss, and |log(predicted / published)| of all that was fitted."""
    found = []
    for block in IMAGE_BLOCKS:
        problem = Fit.of(board, block)
        chosen = _search(problem.loss, problem.start)
        residuals = np.concatenate(problem.errors(chosen))
        found.append(({**chosen, "image_channel_block": block}, problem.loss(chosen), residuals))
    return min(found, key=lambda result: result[1])


def profiled(constants: dict[str, float]) -> dict[str, float]:
    """The constants while profiling is on."""
    factor = constants["profiling"]
    slower = {"op_overhead_us": constants["op_overhead_us"] * factor, "segment_handover_us": 0.0}
    for name in ("npu_bandwidth_gb_s", "move_bandwidth_gb_s"):
        slower[name] = constants[name] / factor
    return {**constants, **slower}


def _mean(errors: Values) -> float:
    return float(np.mean(errors + _SQUARES * errors**2))


def _search(loss: Loss, start: dict[str, float]) -> dict[str, float]:
    best, least = dict(start), loss(start)
    steps = dict.fromkeys(start, 0.3)
    for _ in range(_ROUNDS):
        for name in start:
            for sign in (1, -1):
                tried = {**best, name: best[name] * float(np.exp(sign * steps[name]))}
                now = loss(tried)
                if now < least - 1e-9:
                    best, least = tried, now
                    steps[name] *= 1.2
                    break
            else:
                steps[name] *= 0.6
    return best


def with_constants(npu: object, changed: dict[str, float]) -> RknnCost:
    """The same board with other constants."""
    assert isinstance(npu, RknnCost)
    costs = {**npu.stack.costs, **{name: Quantity(value, "fit") for name, value in changed.items()}}
    stack = Stack(backend="rknn", soc=npu.stack.soc, device_nodes=npu.stack.device_nodes, costs=costs)
    return replace(npu, stack=stack)


def main() -> None:
    found = {board: fit(board) for board in START}
    for board, (chosen, least, _) in found.items():
        print(f"[{board}] loss {least:.4f}")
        for name, value in chosen.items():
            print(f"  {name} = {value:.3g}")
    rest = np.concatenate([errors for _, _, errors in found.values()])
    factor = float(np.exp(np.quantile(rest, _INSIDE)))
    print(f"factor of the bounds: {factor:.2f}, {_INSIDE:.0%} of {len(rest)} residuals lie within")


if __name__ == "__main__":
    main()
