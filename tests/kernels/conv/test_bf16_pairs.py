"""bf16 convolutions and matrix products by pairs of terms, on this machine: the bits of VDPBF16PS, also without it."""

from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir
from numpy.typing import NDArray

from mavcg.graph import DTYPES, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.kernels.gemm.tile import pack
from mavcg.kernels.registry import emit
from mavcg.specs.kernel import BF16_PAIR_TERMS, Machine, Packing
from tests.kernels.blas.test_pair_product import fused
from tests.kernels.conftest import host_machines
from tests.kernels.conv.half_cases import case, same_output, terms_of
from tests.kernels.emulated_steps import EmulatedNode, emulated_node

Array = NDArray[Any]
BF16 = DTYPES["bf16"]
PAIRS = Machine("cooperlake", "x86_64", "cooperlake", ("-prefer-256-bit",), 64, 32, bf16_dot=True)
PACKING = Packing(16, 4, BF16_PAIR_TERMS)
NUMBERS = (0, 3, 4, 5, 6, 15)  # of test_half's cases, those with whole pairs of channels
SAMPLES = 6  # outputs that are computed in fractions


@cache
def machines() -> tuple[Machine, ...]:
    """The kinds of x86-64 machines whose code this one runs, with and without the instruction."""
    there = bool(llvm.get_host_cpu_features().get("avx512bf16"))
    return tuple(m for m in (*host_machines(), *((PAIRS,) if there else ())) if m.arch == "x86_64")


def defined(left: Array, right: Array, start: float) -> np.float32:
    """The sum of products by its definition, from a bias on: of each pair, the second product is added first."""
    total = start
    for first in range(0, len(left), 2):
        for term in (first + 1, first):
            total = fused(total, float(left[term]), float(right[term]))
    return np.float32(total)


@pytest.mark.sample(1)
@pytest.mark.parametrize("number", NUMBERS)
def test_sums_have_the_bits_of_their_definition(number: int) -> None:
    """And they are near the exact ones: n terms round by at most n * 2^-24 of the magnitudes, bf16 by 2^-8."""
    node, (x, w, bias, residual) = case(number, "bf16")
    assert x is not None and w is not None
    (of_graph,) = node.graph.nodes
    output = same_output(node, machines(), PACKING)
    act = of_graph.attr("act")
    if act not in ("", "relu", "clip"):
        return
    low, high = {"": (-np.inf, np.inf), "relu": (0, np.inf), "clip": of_graph.attr("act_args")}[act]
    left, right = terms_of(node, x, w)
    more = 0.0 if residual is None else residual.astype(np.float64)
    biases = np.zeros(output.shape[-1], np.float32) if bias is None else bias
    products = left.astype(np.float64) * right.astype(np.float64)
    exact, size = (f(products).sum(-1) + f(biases) + f(more) for f in (np.asarray, np.abs))
    error = np.abs(output.astype(np.float64) - np.clip(exact, low, high))
    assert (error <= np.abs(exact) * 2.0**-8 + size * left.shape[-1] * 2.0**-24).all()
    rng = np.random.default_rng(number)
    for _ in range(SAMPLES):
        at = tuple(int(rng.integers(n)) for n in output.shape)
        factors = right[0, at[-1]] if of_graph.op == "matmul" else right[at[-1]]
        total = defined(left[(*at[:-1], at[-1] % left.shape[-2])], factors, float(biases[at[-1]]))
        if residual is not None:
            total = total + residual[at].astype(np.float32)
        assert np.clip(total, low, high).astype(BF16) == output[at]


def test_subnormal_numbers_are_zero_and_the_mode_is_restored() -> None:
    """Inputs, products and sums below 2^-126 count as 0; a large and a NaN stay themselves."""
    rows = [[1e-39, 1.0], [2e-38, 1e-2], [2.0**-70, 2.0**-70], [np.inf, 1.0], [np.nan, 1.0], [3e38, 3e38]]
    x = np.array(rows, np.float32).astype(BF16)
    b = GraphBuilder("small")
    w = b.constant(np.array([[1.0, 2.0**-60], [0.0, 1.0]], np.float32).astype(BF16))
    graph = b.finish([b.add("matmul", [b.input("x", TensorType("bf16", x.shape)), w])])
    found = same_output(EmulatedNode(graph, {"x": x}, ()), machines(), PACKING).astype(np.float32)
    wanted = np.array([0, 2e-38, 2.0**-70, np.inf, np.nan, 3e38]).astype(BF16)
    np.testing.assert_array_equal(found[:, 0], wanted.astype(np.float32))
    assert np.float32(2.0**-100) * np.float32(2.0**-40) != 0  # here subnormal numbers are none


def test_loops_multiply_pairs_and_convert_nothing() -> None:
    """LLVM takes the code for AVX512-BF16 on every host; channels that are odd in number are widened."""
    for number, calls in ((0, True), (1, False)):
        node, _ = case(number, "bf16")
        steps = emulated_node(node.graph, {}, packing=PACKING).steps
        module = ir.Module("pairs")
        for step in steps:
            emit(module, step.spec, PAIRS, None)
        text = str(module)
        llvm.parse_assembly(text).verify()
        assert ("llvm.x86.avx512bf16.dpbf16ps.512" in text) == calls
        assert ("llvm.fma.v16f32" in text) != calls


def test_packed_weights_keep_two_terms_of_a_channel_together() -> None:
    weights = np.arange(10 * 2 * 3 * 8).reshape(10, 2, 3, 8)
    packed = pack(weights, 1, 16, 2)
    assert packed.shape == (1, 1, 24, 16, 2)
    np.testing.assert_array_equal(packed[0, 0, 5, 9], weights[9].reshape(-1)[10:12])
    assert not packed[0, 0, :, 10:].any()
