# SPDX-License-Identifier: Apache-2.0
"""The Ethos-U table against Arm's own compiler: its text of constraints, and what it does with files of one op.

Needs ``pip install -e '.[ethosu]'``.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from edgedeploy_partitioner.model.read import read_bytes, read_model
from edgedeploy_partitioner.support.verdicts import Judged, verdicts
from edgedeploy_profiles import load_backend
from support import vela
from support.one_op_file import one_op_file
from support.vela_cases import VelaCase, seeded
from support.vela_limits import limits, spoiled

ETHOSU = load_backend("ethosu")
EXAMPLES = Path(__file__).parents[2] / "examples"
SAID = {"ARGMAX": "ARG_MAX"}
"""Vela's names of ops that are not TFLite's."""

pytestmark = pytest.mark.skipif(
    vela.version() is None, reason="ethos-u-vela is not installed: pip install -e '.[ethosu]'"
)

# --- (a) what Vela says ----------


class Omitted(NamedTuple):
    why: str


TEXTS: dict[str, str | Omitted] = {
    'Feature-map dataTypes must be one of {"INT16", "INT32", "INT64", "INT8", "UINT8"}': "feature_types",
    "Operations must have at least one IFM.": Omitted("a file without inputs of an op is not a valid model"),
    "Operations must have at least one OFM.": Omitted("a file without outputs of an op is not a valid model"),
    "Tensors must have constant shape.": "computed_shapes",
    "Only the first dimension of tensors can be dynamic.": "static_but_batch",
    "Input(s), Output and Weight tensors must have quantization parameters.": "scaled",
    "Quantization scale of any tensor must be positive.": Omitted(
        "what it checks is a shift: scales of 0, below 0 and up to 1e9 pass, 1e10 does not; no model has such scales"
    ),
    "Per-axis quantization is not supported.": "one_scale_each",
    "32-bit feature-maps are not supported.": "feature_types",
    "64-bit feature-maps are not supported.": "feature_types",
    "Zero-points must be 0 for Int32 and non-negative for unsigned dataTypes": "zero_points",
    "Parameter tensors must be constant": "constant_inputs",
    "Kernel stride must be in the range (1,3).": "strides",
    "Stride>3 is only supported IF (dilation = 1 AND padding = VALID)": "strides_unless_unrolled",
    "Weight tensors must be 8-bit precision": "weight_types",
    "Weigth sum constraints:\n  - IF 8-bit IFM:\n    - The sum of absolute weights cannot exceed 8323072\n"
    "  - IF 16-bit IFM:\n    - The sum of absolute weights cannot exceed 8323072": "weight_sum",
    "Bias values must be stored in the channel axis": "bias_vector",
    "Bias tensors must be constant": "constant_inputs",
    "Bias tensors precision must be Int32 or Int64": "bias_types",
    "Int64 bias must be smaller than 1099511627775": "max_bias",
    "Kernel constraints:\n  - IF padding=VALID:\n    - Kernel product must be less than or equal to 256*256\n"
    "    - Kernel height must be less than or equal to 256.\n  - ELSE:\n"
    "    - Kernel width and height must be less than or equal to 8": "pool_kernel",
    "kernel product must be less than or equal to 256*256 and kernel height must be less than or equal to 256.": (
        "pool_kernel"
    ),
    "IF Matmul or (FC with dynamic weights): Reduced axis must be less than or equal to 2^16": "max_matmul_depth",
    "IF Matmul or (FC with dynamic weights): OFM depth must be less than or equal to 2^16": "max_output_depth",
    "IF Matmul or (FC with dynamic weights): IFM precision must be Int8": "data_types",
    "FullyConnected weights must be on the form O,1,1,..,1,I.": "matrix_weights",
    "Shape constraints:\n  - IF PADDING=SAME:\n    - OFM must be equal to IFM * stride\n  - ELSE:\n"
    "    - OFM must be equal to IFM * stride + (kernel - stride)": "transposed_sizes",
    "Stride values WxH must be: 1x1 OR 2x2 OR 2x1 (if IFM height and kernel height is 1) OR 1x2 (if IFM width and "
    "kernel width is 1)": "transposed_strides",
    "IFM and OFM shapes must match": "same_shapes",
    "IFM and OFM datatypes must match, and must be Int8": "same_output_type",
    "IFM and OFM datatypes must match, and must be Int8 or UInt8": "same_output_type",
    "IFM and OFM datatypes must match, and must be Int8 or Int16": "same_output_type",
    "IFM must be Int8 or Int16": "feature_types",
    "Both Input quantization parameters must match OFM quantization parameters": "same_quantisation",
    "The product of IFM width and height must be less than 65536": "max_softmax_area",
    "Batch must be 1.": "unit_batch",
    "Reduction over depth is only supported if any of h,w,c == 1": "flat_if_depth_reduced",
    "Reduced axis must be less than 4096": "max_reduced_axis",
    "IFM precision must be one of: (Int8, UInt8, Int16)": "feature_types",
    "Amount of reduced elements cannot exceed: 16777216(Int8), 8388608(UInt8), 65536(Int16).": "max_reduced_elements",
    "IFM depth must be less than or equal to 127.": "max_depth",
    "Operation must be performed along the depth axis.": "last_axis",
    "Params tensor must be Int32 or Int64": "parameter_types",
    "Tensor dimension must be <= 8": "max_rank",
    "IF IFM is Int32:\n  - Rank must be less than or equal to 4\n  - NHWC: C <= 2^16\n"
    "  - NWHC: N == 1, H <= 2^16, W <= 2^16, C <= 2^14\n  - NHCW: N*H <= 2^16, W <= 2^16, C <= 2^16\n"
    "  - Any other permutation vector is unsupported": "permuted_int32",
    "IF IFM is Int8 or Int16\n  - NHWC: no shape constraints\n"
    "  - ELSE IF permutation is: NWHC/NHCW/NCWH/NWCH/NCHW and the tensor is 3D, or higher-rank with all axes outside "
    "H/W/C equal to 1:\n    - (H, W, C) <= (2^16, 2^16, 2^16)\n  - ELSE:\n"
    "    - Product of any N-2 axes in a rank N tensor must be less than or equal to 2^16. For example, for rank 4: "
    "N*H <= 2^16, N*W <= 2^16, N*C <= 2^16, H*W <= 2^16, H*C <= 2^16, W*C <= 2^16.\n": "permuted_sizes",
    "Slice must represent a volume. Stride must be non-negative (and over W or H).": "image_strides",
    "num_splits must match the number of outputs.": "splits_match",
    "Implicit gate calculation is not supported.": "present_inputs",
    "Peephole variant is not supported.": "absent_inputs",
    "Projection is not supported.": "absent_inputs",
    "Gate normalization is not supported.": "absent_inputs",
    "Axis attribute is not supported.": Omitted("REVERSE_V2 is refused by name: it always has axes"),
    "IF not (IFM H == IFM W == 1) AND not IFM Shape == OFM Shape:\n  - IF W Scale-factor != H Scale-factor:\n"
    "    - OFM W or H must be 1, and scaling in the dim that is must also be 1\n  - IF align corners:\n"
    "    - Scale-factor is defined as OFM H-1 / IFM H-1\n  - ELSE:\n    - Scale-factor is defined as OFM H/IFM H\n"
    "  - IF half pixel centers:\n    - Scale-factor needs to be 2x\n  - Else:\n"
    "    - Scale-factor needs to be one of: 2x/4x/8x\n": "resize_factors",
    "IF NOT (IFM H == IFM W == 1) AND NOT IFM Shape == OFM Shape:\n  - IF W Scale-factor != H Scale-factor:\n"
    "    - OFM W or H must be 1, and scaling in the dim that is must also be 1\n  - IF align corners:\n"
    "    - Scale-factor is defined as OFM H-1 / IFM H-1\n  - ELSE:\n"
    "    - Scale-factor is defined as OFM H / IFM H\n  - Scale-factor must be one of: 2x/4x/8x\n": "resize_factors",
}
"""Each text of Vela -> the predicate that says the same of the op, or why none does."""
EXCEPT = {
    ("FULLY_CONNECTED", "Kernel stride must be in the range (1,3)."): "it has no stride",
    ("SUM", "Kernel stride must be in the range (1,3)."): "it has no stride",
    ("REDUCE_MAX", "Kernel stride must be in the range (1,3)."): "it has no stride",
    ("REDUCE_MIN", "Kernel stride must be in the range (1,3)."): "it has no stride",
    ("ARG_MAX", "Kernel stride must be in the range (1,3)."): "it has no stride",
}
"""Texts that Vela has for an op and that never decide there."""
CONSTRAINTS = {SAID.get(op, op): texts for op, texts in (vela.constraints() if vela.version() else {}).items()}


def test_the_table_is_of_this_version() -> None:
    assert vela.version() == ETHOSU.sdk_version


def test_the_table_has_the_ops_of_vela() -> None:
    ours = {op for rule in ETHOSU.rules for op in rule.maps_to} | {op for row in ETHOSU.refusals for op in row.ops}
    assert ours == set(CONSTRAINTS)


def test_no_text_is_left_over() -> None:
    assert set(TEXTS) == {text for texts in CONSTRAINTS.values() for text in texts}
    assert all(text in CONSTRAINTS[op] for op, text in EXCEPT)


@pytest.mark.parametrize("op", CONSTRAINTS)
def test_the_table_has_every_constraint_of_vela(op: str) -> None:
    rows = [row.require for row in ETHOSU.every_op if not row.sdk_version]
    rows += [rule.require for rule in ETHOSU.rules if op in rule.maps_to]
    ours = {name for require in rows for name in require}
    refused = any(op in row.ops for row in ETHOSU.refusals)
    said = {} if refused else {text: TEXTS[text] for text in CONSTRAINTS[op] if (op, text) not in EXCEPT}
    missing = {text: name for text, name in said.items() if isinstance(name, str) and name not in ours}
    assert not missing


# --- (b) what Vela does ----------

DISAGREE = {
    "SPLIT along -4": "Vela rejects a split along minus the rank, which is the first axis; converters write 0",
    "PRELU slopes without scale": "Vela does not look at the scale of slopes; without one their values mean nothing",
    "RELU scale 1e+10": "Vela refuses scales whose shift is below 0; no model has such scales",
}
"""Cases where the table says otherwise than Vela does, and why it stays like that."""
NEVER_FIRST = {"dense", "input_rank", "output_rank", "no_resize", "computed_inputs", "single_slope"}
"""Predicates that are met, that are in rows whose reason is never the first, or that Vela is not asked about."""
LEAST_CASES = 500


class Compared(NamedTuple):
    case: VelaCase
    ours: Judged
    theirs: vela.Compiled

    @property
    def agrees(self) -> bool:
        """What is unknown is what this version takes and those on the board do not."""
        return (self.ours.status != "refused") == bool(self.theirs.npu)

    def __str__(self) -> str:
        said = self.theirs.failure or self.theirs.refusals or ("on the NPU" if self.theirs.npu else "on the CPU")
        return f"{self.case.name}: {self.ours.status}, {self.ours.reason}; Vela: {said}"


@pytest.fixture(scope="module")
def compared() -> list[Compared]:
    cases = [*limits(), *spoiled(), *seeded()]
    files = [one_op_file(c.code, c.inputs, c.outputs, c.intermediates, **c.options) for c in cases]
    judged: list[Judged] = []
    for file in files:
        graph = read_bytes(file)
        judged += verdicts(graph, graph.subgraphs[0].ops[0], ETHOSU, "imx93")
    return [Compared(*row) for row in zip(cases, judged, vela.compile_all(files), strict=True)]


def test_the_table_says_what_vela_does(compared: list[Compared], capsys: pytest.CaptureFixture[str]) -> None:
    differ = {row.case.name: str(row) for row in compared if not row.agrees}
    alike, kinds = len(compared) - len(differ), Counter(row.ours.status for row in compared)
    with capsys.disabled():
        print(f"\nVela {vela.version()} and the table agree on {alike} of {len(compared)} ops ({dict(kinds)})")
    assert len(compared) >= LEAST_CASES
    assert set(differ) == set(DISAGREE), "\n".join(differ.values())


def test_whole_models_are_placed_like_vela_does() -> None:
    """Every op of the example models, those apart that only unpack constants."""
    paths = sorted(EXAMPLES.glob("*.tflite"))
    assert paths
    for path, theirs in zip(paths, vela.compile_all(path.read_bytes() for path in paths), strict=True):
        graph = read_model(path)
        [judged] = zip(*(verdicts(graph, op, ETHOSU, "imx93") for op in graph.subgraphs[0].ops), strict=True)
        ours = {i for i, j in enumerate(judged) if j.status != "refused" and j.rule != "folded"}
        assert (ours, theirs.failure) == (set(theirs.npu), ""), path.name


def test_the_cases_are_of_every_op_and_break_every_rule(compared: list[Compared]) -> None:
    rules = {name for row in ETHOSU.every_op for name in row.require}
    rules |= {name for rule in ETHOSU.rules for name in rule.require}
    assert {row.ours.rule for row in compared} >= rules - NEVER_FIRST
    taken = {row.case.code for row in compared if row.ours.status != "refused"}
    assert taken == {op for rule in ETHOSU.rules for op in rule.maps_to}
    assert len({row.case.name for row in compared if not row.agrees}) == sum(not row.agrees for row in compared)


def test_cases_are_the_same_every_time() -> None:
    assert list(seeded()) == list(seeded())


# --- the wrapper ----------


def test_a_file_that_kills_the_compiler_is_an_answer_and_costs_no_other() -> None:
    fine = one_op_file("RELU", (relu := next(c for c in limits() if c.code == "RELU")).inputs, relu.outputs)
    before, broken, after = vela.compile_all([fine, b"no model" * 100, fine])
    assert before == after
    assert before.npu == {0}
    assert before.cycles == sum(layer.cycles for layer in before.layers) > 0
    assert broken.failure
    assert not broken.npu | broken.cpu
