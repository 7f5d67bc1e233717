# SPDX-License-Identifier: Apache-2.0
"""Recurrent ops. Their state tensors have a fixed batch: another batch needs another model."""

from __future__ import annotations

from edgedeploy_partitioner.model.shapes.site import Shape, Site, brackets, elements, rule


@rule("UNIDIRECTIONAL_SEQUENCE_LSTM")
def sequence_lstm(site: Site) -> list[Shape]:
    a, b, depth = site.shape(0, rank=3)
    site.require(site.shape(4, rank=2)[1] == depth, f"{depth} inputs do not fit the weights")
    cells, units = site.shape(4)[0], site.shape(8, rank=2)[1]
    batch = b if site.option("time_major") else a
    _state(site, 18, batch * units)
    _state(site, 19, batch * cells)
    return [(a, b, units)]


@rule("BIDIRECTIONAL_SEQUENCE_LSTM")
def bidirectional_sequence_lstm(site: Site) -> list[Shape]:
    a, b, depth = site.shape(0, rank=3)
    site.require(site.shape(4, rank=2)[1] == depth, f"{depth} inputs do not fit the weights")
    forward, backward = site.shape(8, rank=2)[1], site.shape(25, rank=2)[1]
    batch = b if site.option("time_major") else a
    for i, units in ((35, forward), (36, site.shape(4)[0]), (37, backward), (38, site.shape(21, rank=2)[0])):
        _state(site, i, batch * units)
    return _both_ways(site, (a, b), forward, backward)


@rule("LSTM")
def lstm(site: Site) -> list[Shape]:
    batch, depth = site.shape(0, rank=2)
    if site.word("kernel_type") == "BASIC":
        units = site.shape(1, rank=2)[1]
        site.require(site.shape(2, rank=2) == (4 * units, depth + units), f"{depth} inputs do not fit the weights")
        site.require(site.shape(1)[0] == batch, "the previous activation has another batch")
        return [(batch, units), (batch, units), (batch, depth + units), (batch, 4 * units)]
    site.require(site.shape(4, rank=2)[1] == depth, f"{depth} inputs do not fit the weights")
    units = site.shape(8, rank=2)[1]
    _state(site, 18, batch * units)
    _state(site, 19, batch * site.shape(4)[0])
    return [(batch, units)]


@rule("RNN")
def rnn(site: Site) -> list[Shape]:
    batch, depth = site.shape(0, rank=2)
    units = _units(site, 1, depth)
    _state(site, 4, batch * units)
    return [(batch, units)]


@rule("UNIDIRECTIONAL_SEQUENCE_RNN")
def sequence_rnn(site: Site) -> list[Shape]:
    a, b, depth = site.shape(0, rank=3)
    units = _units(site, 1, depth)
    _state(site, 4, (b if site.option("time_major") else a) * units)
    return [(a, b, units)]


@rule("BIDIRECTIONAL_SEQUENCE_RNN")
def bidirectional_sequence_rnn(site: Site) -> list[Shape]:
    a, b, depth = site.shape(0, rank=3)
    forward, backward = _units(site, 1, depth), site.shape(5, rank=2)[0]
    batch = b if site.option("time_major") else a
    _state(site, 4, batch * forward)
    _state(site, 8, batch * backward)
    return _both_ways(site, (a, b), forward, backward)


@rule("SVDF")
def svdf(site: Site) -> list[Shape]:
    batch, depth = site.shape(0, rank=2)
    filters = _units(site, 1, depth)
    memory = site.shape(2, rank=2)[1]
    rank = site.option("rank", 1)
    site.require(rank > 0 and filters % rank == 0, f"{filters} filters do not divide into rank {rank}")
    _state(site, 4, batch * filters * memory)
    return [(batch, filters // rank)]


def _units(site: Site, weights: int, depth: int) -> int:
    units, taken = site.shape(weights, rank=2)
    site.require(taken == depth, f"{depth} inputs do not fit weights that take {taken}")
    return units


def _state(site: Site, i: int, size: int) -> None:
    held, state = site.shape(i), site.tensor(i)
    problem = f"its state, tensor {state.id} {state.name!r} {brackets(held)}, would need {size} elements"
    site.require(elements(held) == size, f"{problem}: the batch of a state is fixed")


def _both_ways(site: Site, steps: Shape, forward: int, backward: int) -> list[Shape]:
    if site.option("merge_outputs"):
        return [(*steps, forward + backward)]
    return [(*steps, forward), (*steps, backward)]
