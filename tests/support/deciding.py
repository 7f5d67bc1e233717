# SPDX-License-Identifier: Apache-2.0
"""Does every row and every requirement of a support table decide something?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args

from msgspec.structs import replace

from edgedeploy_partitioner.support.verdicts import Judged, verdicts
from edgedeploy_profiles.schema import Backend, Evidence, Requirement, Rule
from support.single_op import Made


def judged_on(made: Made, table: Backend, soc: str, kernel: str = "npu") -> Judged:
    return {judged.kernel: judged for judged in verdicts(*made, table, soc)}[kernel]


def undecided(table: Backend, cases: Sequence[Made]) -> Iterator[str]:
    """Each row that decides none of ``cases``, stronger evidence aside, and each requirement that none breaks."""
    for i, rule in enumerate(table.rules):
        where = f"rules[{i}] {rule.kernel}"
        for op in rule.maps_to:
            own = [made for made in cases if made[1].code == op]
            if not any(_decides(table, rule, made) for made in own):
                yield f"{where} {op}: no op that it decides"
        own = [made for made in cases if made[1].code in rule.maps_to]
        alone = replace(table, rules=(rule,), refusals=(), every_op=())
        for name in sorted(rule.require.keys() - {_decider(alone, rule.socs, made) for made in own}):
            yield f"{where} {'/'.join(rule.maps_to)}: no op that breaks {name}"
    for i, row in enumerate(table.every_op):
        for name in row.require:
            if not any(_breaks(table, row, name, made) for made in cases):
                yield f"every_op[{i}]: no op that breaks {name}"


def _decides(table: Backend, rule: Rule, made: Made) -> bool:
    told = (rule.kernel, rule.verdict, "row", table.sources.get(rule.source, rule.source), rule.evidence)
    words = get_args(Evidence)
    rules = tuple(other for other in table.rules if words.index(other.evidence) <= words.index(rule.evidence))
    weaker = replace(table, rules=rules, refusals=())
    found = (j for soc in rule.socs or table.socs for j in verdicts(*made, weaker, soc))
    return any((j.kernel, j.status, j.rule, j.source, j.evidence) == told for j in found)


def _decider(alone: Backend, socs: Sequence[str], made: Made) -> str:
    return verdicts(*made, alone, (*socs, *alone.socs)[0])[0].rule


def _breaks(table: Backend, row: Requirement, name: str, made: Made) -> bool:
    free = tuple(replace(rule, require={}, socs=(), evidence="table") for rule in table.rules)
    only = replace(table, rules=free, refusals=(), every_op=(row,))
    found = verdicts(*made, only, (*row.socs, *table.socs)[0])
    return any((j.rule, j.status) == (name, row.otherwise) for j in found)
