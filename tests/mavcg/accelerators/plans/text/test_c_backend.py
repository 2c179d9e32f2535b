"""Plans as C, compiled for this machine and run."""

import ctypes
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.accelerators.plans.text.c_backend import plan_c
from mavcg.accelerators.plans.text.emit import emit_plan, emit_pool
from mavcg.accelerators.plans.text.interpret import run_plan
from mavcg.accelerators.plans.text.plan import TextPlan, Types
from mavcg.cost.layer import ConvLayer, Dataflow, ItemBytes, Tile, Tiling
from mavcg.errors import MavcgError
from mavcg.graph import Array
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_zig

Arrays = Callable[..., tuple[Array, Array]]
Convolved = Callable[[ConvLayer, Array, Array], Array]

DTYPES = {"f32": np.float32, "f64": np.float64, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64}
I32 = Types("i32", "i32", "i32", "i32")

PLAIN = ConvLayer("plain", 6, 5, 9, 9, 3, 3, 9, 9, pads=(1, 1, 1, 1))
ODD = ConvLayer("odd", 3, 2, 4, 5, 3, 2, 12, 11, (3, 2), (1, 0, 2, 1), (2, 1), groups=2)
FC = ConvLayer("fc", 10, 12, 1, 1, 1, 1, 1, 1)

# layer, tile, dataflow, types, whether one memory is shared
CASES: list[tuple[ConvLayer, Tile, Dataflow, Types, bool]] = [
    (PLAIN, Tile(4, 2, 4, 9, 3, 3), Dataflow.WEIGHT, I32, False),
    (PLAIN, Tile(4, 2, 4, 5, 2, 1), Dataflow.OUTPUT, Types(), True),
    (PLAIN, Tile(4, 2, 4, 5, 3, 3), Dataflow.INPUT, Types("i8", "i8", "i32", "i32"), True),
    (ODD, Tile(2, 1, 3, 2, 2, 1), Dataflow.WEIGHT, I32, True),
    (ODD, Tile(3, 2, 1, 1, 3, 2), Dataflow.INPUT, Types("f64", "f64", "f64", "f64"), False),
    (FC, Tile(4, 5, 1, 1, 1, 1), Dataflow.WEIGHT, Types("f32", "f32", "f32", "f64"), False),
    (FC, Tile(10, 5, 1, 1, 1, 1), Dataflow.INPUT, Types("i16", "i16", "i32", "i64"), True),
    # Padding wider than the kernel: tiles of the input that are nothing but padding.
    (ConvLayer("pads", 2, 2, 7, 7, 1, 1, 3, 3, pads=(2,) * 4), Tile(2, 1, 2, 2, 1, 1), Dataflow.WEIGHT, I32, False),
]


def _compiled(folder: Path, sources: list[str], *flags: str) -> ctypes.CDLL:
    """A library of them, built as strict C11."""
    names = []
    for i, source in enumerate(sources):
        (folder / f"plan{i}.c").write_text(source)
        names.append(f"plan{i}.c")
    words = [
        "-target",
        host_target().zig_name,
        "-std=c11",
        "-pedantic-errors",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-O1",
        "-shared",
        "-fPIC",
    ]
    run_zig("cc", [*words, *PLAIN_CODE_FLAGS, *flags, *names, "-o", "plans.so"], "compiling plans", folder)
    return ctypes.CDLL(str(folder / "plans.so"))


def _called(function: Any, plan: TextPlan, *arrays: Array) -> Array:
    types = plan.info.types
    given = [np.ascontiguousarray(a, DTYPES[t]) for a, t in zip(arrays, (types.input, types.weight), strict=False)]
    output = np.full(plan.info.output, 77, DTYPES[types.output])
    function(*(array.ctypes.data_as(ctypes.c_void_p) for array in (*given, output)))
    return output


def _items(types: Types) -> ItemBytes:
    return ItemBytes(*(np.dtype(DTYPES[t]).itemsize for t in (types.input, types.weight, types.output, types.psum)))


def test_plans_compiled_as_c_compute_their_layers(
    tmp_path: Path, roomy: Any, roomy_shared: Any, arrays: Arrays, convolved: Convolved
) -> None:
    plans = [
        emit_plan(replace(layer, items=_items(types)), Tiling(tile, flow), roomy_shared if shared else roomy, types)
        for layer, tile, flow, types, shared in CASES
    ]
    library = _compiled(tmp_path, [plan_c(plan, f"run{i}") for i, plan in enumerate(plans)])
    for i, (plan, (layer, *_)) in enumerate(zip(plans, CASES, strict=True)):
        x, w = arrays(layer)
        # Small whole numbers: floats add them exactly, in any order.
        wanted = convolved(layer, x.astype(float), w.astype(float))
        np.testing.assert_array_equal(_called(library[f"run{i}"], plan, x, w), wanted, f"{plan.name}, number {i}")


@pytest.mark.long
def test_figure_7_1_compiled_as_c(tmp_path: Path, figure: TextPlan, arrays: Arrays, convolved: Convolved) -> None:
    """Its tiles are 65 runs of elements, where the paper's figure 7.2 copies one."""
    layer = ConvLayer("", 256, 128, 56, 56, 3, 3, 56, 56, pads=(1,) * 4)
    x, w = arrays(layer)
    output = _called(_compiled(tmp_path, [plan_c(figure)], "-O2").run, figure, x, w)
    np.testing.assert_array_equal(output, convolved(layer, x.astype(float), w.astype(float)))


def test_other_operators_wrapping_sums_and_operators_of_ones_own(
    tmp_path: Path, roomy: Any, arrays: Arrays, convolved: Convolved
) -> None:
    pool = ConvLayer("pool", 1, 1, 4, 5, 3, 2, 9, 9, (2, 2), (1, 0, 0, 1), groups=5)
    pools = [emit_pool(pool, Tile(2, 1, 3, 2, 3, 2), roomy, maximum, I32) for maximum in (True, False)]
    relu = emit_plan(PLAIN, Tiling(Tile(4, 2, 4, 9, 3, 3), Dataflow.INPUT), roomy, I32, relu=True)
    wraps = emit_plan(PLAIN, Tiling(Tile(6, 5, 9, 9, 3, 3), Dataflow.INPUT), roomy, I32)
    plans = [*pools, relu, wraps]
    library = _compiled(tmp_path, [plan_c(plan, f"run{i}") for i, plan in enumerate(plans)])
    x, _ = arrays(pool)
    for i in (0, 1):
        np.testing.assert_array_equal(_called(library[f"run{i}"], plans[i], x), run_plan(plans[i], x, None).output)
    x, w = arrays(PLAIN)
    np.testing.assert_array_equal(_called(library.run2, relu, x, w), np.maximum(convolved(PLAIN, x, w), 0))
    x, w = arrays(PLAIN, np.int32, 2**31 - 1)
    np.testing.assert_array_equal(_called(library.run3, wraps, x, w), run_plan(wraps, x, w).output)

    # A convolution of one's own takes the place of the loops: this one makes 5 of everything.
    own = tmp_path / "own"
    own.mkdir()
    (own / "mine.h").write_text(
        "static void mine(const input_t *in, const weight_t *wt, psum_t *ot, const struct plan_conv *p) {\n"
        "    (void)in, (void)wt;\n"
        "    for (int i = 0; i < p->oc * p->oh * p->ow; i++) ot[i] = 5;\n"
        "}\n#define PLAN_CONV mine\n"
    )
    library = _compiled(own, [plan_c(wraps)], '-DPLAN_RUNTIME="mine.h"')
    assert (_called(library.run, wraps, x, w) == 5).all()


def test_the_c_reads_like_the_plan(figure: TextPlan) -> None:
    text = plan_c(figure)
    first = text[
        text.index("void run(const input_t *input, const weight_t *weight, output_t *output) {") :
    ].splitlines()
    assert [line.split("/* ")[1].removesuffix(" */") for line in first[1:5]] == [
        "LOAD WT_MEM_0 WEIGHT_0",
        "LOAD IN_MEM_0 INPUT_0",
        "CONV OUTPUT_0 INPUT_0 WEIGHT_0 1 (1,1,1,0)",
        "STORE OUTPUT_0 OT_MEM_0 PARTIAL",
    ]
    assert "static input_t in_mem_0[131072];" in text


def test_wrong_plans_and_types_that_c_lacks_are_refused(figure: TextPlan) -> None:
    with pytest.raises(MavcgError, match="is not on chip"):
        plan_c(replace(figure, commands=figure.commands[1:]))
    half = replace(figure, name="conv", info=replace(figure.info, types=Types("f16", "f16", "f16", "f32")))
    with pytest.raises(MavcgError, match="plan of conv: C has no type f16"):
        plan_c(half)


def test_a_name_cannot_leave_its_comment(figure: TextPlan) -> None:
    assert "*/ int" not in plan_c(replace(figure, name="a */ int\nb"))
