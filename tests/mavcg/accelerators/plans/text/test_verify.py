"""The verifier: right plans pass, and every way to spoil one is named with its line."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.accelerators.plans.text.emit import emit_plan
from mavcg.accelerators.plans.text.interpret import run_plan
from mavcg.accelerators.plans.text.parser import parse_plan
from mavcg.accelerators.plans.text.plan import Conv, Load, Store, TextPlan
from mavcg.accelerators.plans.text.printer import print_plan
from mavcg.accelerators.plans.text.verify import verify_plan
from mavcg.cost.layer import ConvLayer, Dataflow, Tile, Tiling
from mavcg.errors import MavcgError
from tests.conftest import examples

LAYER = ConvLayer("c", oc=4, ic=4, oh=8, ow=8, kh=3, kw=3, ih=8, iw=8, pads=(1, 1, 1, 1))


@pytest.fixture(scope="module")
def text(roomy: Any) -> str:
    """Two tiles along OC, IC, OH: weight stationary, so with partial sums."""
    plan = emit_plan(LAYER, Tiling(Tile(2, 2, 4, 8, 3, 3), Dataflow.WEIGHT), roomy)
    plan = replace(plan, memories=tuple(replace(m, size_bytes=4 * 5 * 8 * 2) for m in plan.memories))
    return print_plan(plan)


@given(data=st.data())
@settings(max_examples=examples(50, 6))
def test_emitted_plans_are_right(data: st.DataObject, cases: Any, roomy: Any, roomy_shared: Any) -> None:
    layer, tiling = data.draw(cases)
    for accelerator in (roomy, roomy_shared):
        verify_plan(emit_plan(layer, tiling, accelerator, relu=True))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (r"IN_MEM_0\(80\)", "IN_MEM_0(79)", "IN_MEM_0: has 316 bytes, its largest tiles need 320 (320 of INPUT)"),
        (r"OT_MEM_0\(80\)", "OT_MEM_0(8 bytes)", "OT_MEM_0: has 8 bytes, its largest tiles need 256"),
        (r"INPUT_0\[0\]", "INPUT_0[8]", "an input of rows 1 to 5, where rows 0 to 3 of the output read 0 to 4"),
        (r"INPUT_0\[0\]", "INPUT_0[64]", "an input of channels 1 to 2, where 0 to 1 belong to output and weights"),
        (r"INPUT_0\[0\]\(1,2,5,8\)", "INPUT_0[0](0,2,5,8)", "INPUT_0: (0, 2, 5, 8) has a batch of 0; a plan covers"),
        (r"INPUT_3\[\d+\]", "INPUT_3[250]", "extends beyond INPUT(1, 4, 8, 8); correct the offset"),
        (r"WEIGHT_1\[18\]", "WEIGHT_1[0]", "an input of channels 2 to 3, where 0 to 1 belong"),
        (r"OUTPUT_1\[32\]", "OUTPUT_1[24]", "where rows 3 to 6 of the output read 2 to 7"),
        (
            r"OUTPUT_1\[32\]\(1,2,4,8\)",
            "OUTPUT_1[32](1,1,4,8)",
            "weights of output channels 0 to 1, an output of 0 to 0",
        ),
        (r"INPUT_0\[0\]\(1,2,5,8\)", "INPUT_0[0](1,2,4,8)", "an input of rows 0 to 3, where rows 0 to 3 of the output"),
        (r"INPUT_0 WEIGHT_0 1 \(1,1,1,0\)", "INPUT_0 WEIGHT_0 1 (1,1,0,0)", "0 and 0 rows of padding round the input"),
        (r"INPUT_0 WEIGHT_0 1 \(1,1,1,0\)", "INPUT_0 WEIGHT_0 1 (0,1,1,0)", "0 and 1 columns of padding round the"),
        (r"INPUT_0 WEIGHT_0 1 ", "INPUT_0 WEIGHT_0 2 ", "stride (2, 2), the layer's is (1, 1)"),
        (r"LOAD WT_MEM_0 WEIGHT_0\n", "", "WEIGHT_0 is not on chip: not loaded"),
        (r"LOAD IN_MEM_0 INPUT_1\n", "", "INPUT_1 is not on chip"),
        (r"LOAD OT_MEM_0 OUTPUT_0\n", "", "ADD: no sums of OUTPUT_0 are on chip"),
        (r"LOAD IN_MEM_0 INPUT_0", "LOAD WT_MEM_0 INPUT_0", "WT_MEM_0 holds WEIGHT, not INPUT"),
        (r"LOAD IN_MEM_0 INPUT_0", "LOAD IN_MEM_1 INPUT_0", "IN_MEM_1 is not a memory in [var]"),
        (r"LOAD IN_MEM_0 INPUT_0", "LOAD IN_MEM_0 INPUT_9", "INPUT_9 is not a tile in [var]"),
        (r"CONV OUTPUT_0 INPUT_0", "CONV OUTPUT_9 INPUT_0", "OUTPUT_9 is not a tile of OUTPUT"),
        (r"STORE OUTPUT_0 OT_MEM_0 PARTIAL\n", "", "OT_MEM_0 has sums of OUTPUT_0 that were never stored"),
        (r"STORE OUTPUT_0 OT_MEM_0 PARTIAL", "STORE OUTPUT_0 OT_MEM_0", "OUTPUT_0 has 18 of the 36 products"),
        (r"STORE OUTPUT_3 OT_MEM_0\n$", "", "OUTPUT_3 is never stored|OUTPUT_3: its sums are never stored complete"),
        (r"(CONV OUTPUT_0 .*) ADD", r"\1", "OUTPUT_0 was begun before and would begin anew"),
        (r"(CONV OUTPUT_0 .*) ADD", r"\1 ADD\n\1 ADD", "OUTPUT_0 has 54 of the 36 products"),
        (r"(CONV OUTPUT_0 .*)\n", r"\1 ADD\n", "ADD: no sums of OUTPUT_0 are on chip"),
        (r"STORE OUTPUT_0 OT_MEM_0 PARTIAL", "STORE OUTPUT_1 OT_MEM_0 PARTIAL", "OUTPUT_1 is not in OT_MEM_0"),
        (r"(STORE OUTPUT_3 OT_MEM_0\n)$", r"\1\1", "OUTPUT_3 was stored complete before"),
        (r"(CONV OUTPUT_0 .*\n)", r"\1RELU OUTPUT_0\n", "OUTPUT_0 is not complete on chip"),
        (r"(LOAD WT_MEM_0 WEIGHT_0\n)", r"LOAD OT_MEM_0 OUTPUT_0\n\1", "no partial sums of OUTPUT_0 are off chip"),
        (r"OUTPUT\(1,4,8,8\)", "OUTPUT(1,4,9,8)", "an output height of 9, where input, kernel, stride"),
        (r"OUTPUT\(1,4,8,8\)", "OUTPUT(1,5,8,8)", "weights for 4 channels, an output of 5"),
        (r"INPUT\(1,4,8,8\)", "INPUT(2,4,8,8)", "a batch of 2 in"),
        (r"PADS\(1,1,1,1\)", "PADS(1,1,1,1)\nGROUPS(2)", "2 groups of 4 input channels"),
        (r"PADS\(1,1,1,1\)", "PADS(1,1,2,1)", "1 and 0 rows of padding round the input|an input of rows"),
        (r"INPUT_1\[", "INPUT_0[", "INPUT_0: declared twice"),
        (r"WT_MEM_0\(", "IN_MEM_0(", "IN_MEM_0: declared twice"),
        (r"INPUT\(1,4,8,8\)", "INPUT(1,4,99999,99999)", "elements; at most"),
        (r"PADS\(1,1,1,1\)", f"PADS(1,1,{2**60},1)", "more than 1073741824; write less"),
        (r"PADS\(1,1,1,1\)", f"STRIDE({2**60},1)", "more than 1073741824; write less"),
    ],
)
def test_every_slip_is_found(text: str, old: str, new: str, message: str) -> None:
    spoilt, count = re.subn(old, new, text, count=1)
    assert count == 1
    with pytest.raises(MavcgError) as raised:
        verify_plan(parse_plan(spoilt, "p"))
    assert any(part in str(raised.value) for part in message.split("|")), raised.value
    assert str(raised.value).startswith(("p:", "plan of c: [info]"))


def test_output_that_nobody_stores_is_missed(text: str) -> None:
    whole = parse_plan(text)
    tiles = {t.name for t in whole.tiles if t.name in ("OUTPUT_2", "OUTPUT_3")}
    kept = tuple(
        c for c in whole.commands if isinstance(c, Load) and "OUTPUT" not in c.tile or not tiles & set(_names(c))
    )
    with pytest.raises(MavcgError, match="128 of its 256 elements are stored"):
        verify_plan(replace(whole, commands=kept))


def _names(command: Any) -> tuple[str, ...]:
    return tuple(getattr(command, name, "") for name in ("tile", "output"))


def test_tiles_that_overlap_are_found(roomy: Any) -> None:
    plan = emit_plan(replace(LAYER, ic=1), Tiling(Tile(4, 1, 4, 8, 3, 3), Dataflow.OUTPUT), roomy)
    text = print_plan(plan)
    # The second tile of output once more, under another name.
    again = text.replace("[text]", "OUTPUT_7[32](1,4,4,8)\n[text]")
    again += "CONV OUTPUT_7 INPUT_1 WEIGHT_0 1 (1,1,0,1)\nSTORE OUTPUT_7 OT_MEM_0\n"
    verify_plan(parse_plan(text))
    with pytest.raises(MavcgError, match="OUTPUT_7: shares elements of the output with another tile"):
        verify_plan(parse_plan(again))


def test_terms_may_be_cut_differently_for_each_output_but_not_overlap(roomy: Any) -> None:
    """Kernel rows 0-1 and 2 for one tile, 0 and 1-2 for the other: boxes overlap in the plan, in no sum."""
    layer = ConvLayer("", 1, 1, 2, 1, 3, 1, 4, 1)
    plan = """[info]\nINPUT(1,1,4,1)\nWEIGHT(1,1,3,1)\nOUTPUT(1,1,2,1)\n[var]\nMEM_0(99)
INPUT_0[0](1,1,2,1)\nINPUT_1[2](1,1,1,1)\nINPUT_2[1](1,1,1,1)\nINPUT_3[2](1,1,2,1)
WEIGHT_0[0](1,1,2,1)\nWEIGHT_1[2](1,1,1,1)\nWEIGHT_2[0](1,1,1,1)\nWEIGHT_3[1](1,1,2,1)
OUTPUT_0[0](1,1,1,1)\nOUTPUT_1[1](1,1,1,1)\n[text]
LOAD MEM_0 INPUT_0\nLOAD MEM_0 WEIGHT_0\nCONV OUTPUT_0 INPUT_0 WEIGHT_0 1 (0,0,0,0)
LOAD MEM_0 INPUT_1\nLOAD MEM_0 WEIGHT_1\nCONV OUTPUT_0 INPUT_1 WEIGHT_1 1 (0,0,0,0) ADD\nSTORE OUTPUT_0 MEM_0
LOAD MEM_0 INPUT_2\nLOAD MEM_0 WEIGHT_2\nCONV OUTPUT_1 INPUT_2 WEIGHT_2 1 (0,0,0,0)
LOAD MEM_0 INPUT_3\nLOAD MEM_0 WEIGHT_3\nCONV OUTPUT_1 INPUT_3 WEIGHT_3 1 (0,0,0,0) ADD\nSTORE OUTPUT_1 MEM_0
"""
    x, w = np.array([1, 2, 3, 4]).reshape(1, 1, 4, 1), np.array([1, 10, 100]).reshape(1, 1, 3, 1)
    assert run_plan(parse_plan(plan), x, w).output.ravel().tolist() == [321, 432]
    assert layer.macs == 6
    twice = plan.replace("INPUT_1 WEIGHT_1 1", "INPUT_2 WEIGHT_4 1").replace("LOAD MEM_0 INPUT_1", "LOAD MEM_0 INPUT_2")
    twice = twice.replace("LOAD MEM_0 WEIGHT_1", "LOAD MEM_0 WEIGHT_4").replace(
        "OUTPUT_0[0]", "WEIGHT_4[1](1,1,1,1)\nOUTPUT_0[0]"
    )
    with pytest.raises(MavcgError, match="OUTPUT_0 has 3 of the 3 products of each sum, or some of them twice"):
        verify_plan(parse_plan(twice))


def test_a_plan_that_never_was_text_names_layer_and_command(roomy: Any) -> None:
    plan = emit_plan(LAYER, Tiling(Tile(4, 4, 8, 8, 3, 3), Dataflow.INPUT), roomy)
    with pytest.raises(MavcgError, match=r"^plan of c: command 2, CONV OUTPUT_0 .*: WEIGHT_0 is not on chip"):
        verify_plan(replace(plan, commands=plan.commands[1:]))


@given(data=st.data())
@settings(max_examples=examples(60, 8))
def test_a_plan_with_a_command_less_is_never_right(
    data: st.DataObject, cases: Any, roomy: Any, arrays: Callable[..., Any]
) -> None:
    """Every LOAD, CONV and STORE that is emitted is needed, but the CONV and LOAD of a tile that was just there."""
    layer, tiling = data.draw(cases)
    plan = emit_plan(layer, tiling, roomy)
    index = data.draw(st.integers(0, len(plan.commands) - 1))
    less: TextPlan = replace(plan, commands=plan.commands[:index] + plan.commands[index + 1 :])
    assert isinstance(plan.commands[index], Load | Conv | Store)
    with pytest.raises(MavcgError):
        verify_plan(less)
