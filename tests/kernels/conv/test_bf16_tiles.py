"""bf16 convolutions and matrix products by blocks of terms, on this machine: the bits of TDPBF16PS, also without it."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llvmlite import ir
from numpy.typing import NDArray

from mavcg.graph import DTYPES, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.kernels.builder.module_text import add_core_attributes
from mavcg.kernels.gemm.register_tile import MOST_TILED_PIXELS, cut
from mavcg.kernels.gemm.tile_products import tile_rows
from mavcg.kernels.registry import emit
from mavcg.runtime.binding import tiles_permitted
from mavcg.specs.kernel import BF16_TILE_TERMS, Machine, Packing
from tests.conftest import Golden
from tests.kernels.blas.test_pair_product import fused
from tests.kernels.conftest import host_machines
from tests.kernels.conv.half_cases import evaluated_shape, same_output, terms_of
from tests.kernels.emulated_steps import EmulatedNode, emulated_node

Array = NDArray[Any]
BF16 = DTYPES["bf16"]
WIDE = ("-prefer-256-bit",)
TILES = Machine("sapphirerapids", "x86_64", "sapphirerapids", WIDE, 64, 32, bf16_tiles=True)
PACKING = Packing(16, 4, BF16_TILE_TERMS)
# x, w, attributes, terms of a block; 1: widened. Rows of one tile of pixels and of two, whole and partial panels.
CASES: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any], int], ...] = (
    ((1, 1, 5, 64), (40, 1, 1, 64), {"act": "relu"}, 32),
    ((1, 3, 17, 24), (21, 1, 1, 24), {}, 24),
    ((1, 5, 9, 40), (70, 3, 3, 40), {"residual": True}, 20),
    ((1, 4, 35, 16), (16, 2, 3, 16), {"stride": (2, 2), "act": "clip", "act_args": (0.0, 6.0)}, 16),
    ((2, 4, 18, 64), (24, 3, 3, 32), {"groups": 2, "dilation": (1, 2)}, 32),
    ((1, 1, 3, 64), (20, 1, 1, 64), {}, 1),
    ((1, 5, 9, 12), (20, 1, 1, 12), {}, 1),
)
SAMPLES = 5  # outputs that are computed in fractions


@cache
def machines() -> tuple[Machine, ...]:
    """The kinds of x86-64 machines whose code this one runs, with and without AMX."""
    there = bool(llvm.get_host_cpu_features().get("amx-bf16")) and tiles_permitted()
    return tuple(m for m in (*host_machines(), *((TILES,) if there else ())) if m.arch == "x86_64")


def tiled_case(number: int, numbers: Sequence[float] = ()) -> tuple[EmulatedNode, Array, Array, Array, Array | float]:
    """A case's node, and its x, weights, bias and residual. numbers: those of x, repeated in order; (): random ones."""
    x_shape, w_shape, options, _ = CASES[number]
    attrs = {"pads": (0, 0, 0, 0), **{name: value for name, value in options.items() if name != "residual"}}
    rng, b = np.random.default_rng(number), GraphBuilder("test")
    x, w = (rng.standard_normal(shape).astype(np.float32).astype(BF16) for shape in (x_shape, w_shape))
    if numbers:
        x = np.resize(np.array(numbers, np.float32).astype(BF16), x_shape)
    bias = rng.standard_normal(w_shape[0]).astype(np.float32)
    names = [b.input("x", TensorType("bf16", x_shape)), b.constant(w, "w"), b.constant(bias, "bias")]
    inputs = {"x": x}
    residual: Array | float = 0.0
    if options.get("residual"):
        shape = evaluated_shape("conv2d", x, w, attrs)
        inputs["residual"] = residual = rng.standard_normal(shape).astype(np.float32).astype(BF16)
        names.append(b.input("residual", TensorType("bf16", shape)))
    graph = b.finish([b.add("conv2d", names, **attrs)])
    return emulated_node(graph, inputs, packing=PACKING), x, w, bias, residual


def defined(left: Array, right: Array, block: int) -> np.float32:
    """The sum of products by its definition: of each block, that of even terms, that of odd ones, and their sum."""
    total = np.float32(0)
    for first in range(0, len(left), block):
        halves = [0.0, 0.0]
        for term in range(first, first + block):
            halves[term % 2] = fused(halves[term % 2], float(left[term]), float(right[term]))
        total = total + (np.float32(halves[0]) + np.float32(halves[1]))
    return total


@pytest.mark.sample(2)
@pytest.mark.parametrize("number", range(len(CASES)))
def test_sums_have_the_bits_of_their_definition(number: int) -> None:
    """And they are near the exact ones: n terms round by at most n * 2^-24 of the magnitudes, bf16 by 2^-8."""
    node, x, w, bias, residual = tiled_case(number)
    terms, act = CASES[number][-1], CASES[number][2].get("act", "")
    low, high = {"": (-np.inf, np.inf), "relu": (0, np.inf), "clip": (0, 6)}[act]
    assert [step.spec.terms for step in node.steps] == [terms]  # type: ignore[attr-defined]
    output = same_output(node, machines(), PACKING, optimised=number == 0)
    left, right = terms_of(node, x, w)
    products = left.astype(np.float64) * right.astype(np.float64)
    more = np.asarray(residual).astype(np.float64)
    exact, size = (f(products).sum(-1) + f(bias) + f(more) for f in (np.asarray, np.abs))
    error = np.abs(output.astype(np.float64) - np.clip(exact, low, high))
    assert (error <= np.abs(exact) * 2.0**-8 + size * left.shape[-1] * 2.0**-24).all()
    rng = np.random.default_rng(number)
    for _ in range(SAMPLES if terms > 1 else 0):
        at = tuple(int(rng.integers(n)) for n in output.shape)
        total = defined(left[at], right[at[-1]], terms) + bias[at[-1]]
        if isinstance(residual, np.ndarray):
            total = total + residual[at].astype(np.float32)
        assert np.clip(total, low, high).astype(BF16) == output[at]


def test_subnormal_and_infinite_numbers_are_the_same_everywhere() -> None:
    """Subnormal inputs, products and sums are 0; infinite and large ones stay so."""
    node, *_ = tiled_case(0, (1e-39, 3e38, 2.0**-70, 1e-38, np.inf, -3e38, 1.0) * 3 + (2.0**-126,) * 64)
    assert np.isinf(same_output(node, machines(), PACKING).astype(np.float32)).any()


@given(pixels=st.integers(1, 400))
def test_tile_registers_hold_all_pixels_of_each_register_tile(pixels: int) -> None:
    rows = tile_rows(pixels)
    assert rows <= 16 and all(rows <= width <= 2 * rows for width, _ in cut(pixels, MOST_TILED_PIXELS).tiles)


def module_of(node: EmulatedNode) -> ir.Module:
    module = ir.Module("tiles")
    module.triple = "x86_64-unknown-linux-gnu"
    for step in node.steps:
        emit(module, step.spec, TILES, None)
    return module


def test_text_of_a_kernel(golden: Golden) -> None:
    """A product of four rows by a panel: a tile of inputs, one of weights, two blocks of terms."""
    b = GraphBuilder("small")
    w = b.constant(np.ones((64, 16), np.float32).astype(BF16))
    graph = b.finish([b.add("matmul", [b.input("x", TensorType("bf16", (4, 64))), w])])
    assert golden == str(module_of(emulated_node(graph, {}, packing=PACKING)))


def test_llvm_takes_it_on_every_host() -> None:
    """Tiles are configured once and released once; sums take no other products."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    parsed = llvm.parse_assembly(add_core_attributes(module_of(tiled_case(1)[0]), TILES))
    parsed.verify()
    target = llvm.Target.from_triple("x86_64-unknown-linux-gnu")
    text = target.create_target_machine(cpu=TILES.llvm_cpu, features=",".join(WIDE)).emit_assembly(parsed)
    found = {name: len(re.findall(rf"\b{name}\b", text)) for name in ("ldtilecfg", "tilerelease", "vfmadd231ps")}
    assert found == {"ldtilecfg": 1, "tilerelease": 1, "vfmadd231ps": 0} and "tdpbf16ps" in text
