"""Products with weights of 2, 4 and 8 bits in blocks: equal bits on every core, near the definition's results."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.graph import Graph, type_of
from mavcg.graph.ops import infer, make_node
from mavcg.graph.reference import evaluate
from mavcg.graph.reference.block_weights import unpack_bits
from mavcg.kernels.block_weights.packing import BlockFormat, pack_blocks, pack_blocks_with_zeros
from mavcg.kernels.block_weights.spec import BlockProduct, Lines, QuantizedBlocks
from mavcg.kernels.registry import lower
from mavcg.specs.kernel import Machine, Packing, View, dense_view
from mavcg.specs.tile_plan import call_rows
from tests.kernels.conftest import machines_of_all_widths, run_node_on
from tests.kernels.emulated_steps import compiled, emulated_node, run_emulated

ERROR = 1e-6  # of the largest sum
ARM = {
    "a53": Machine("a53", "aarch64", "cortex-a53", ("+neon",), in_order=True),
    "a55": Machine("a55", "aarch64", "cortex-a55", ("+dotprod",), in_order=True, dot_product=True),
    "a76": Machine("a76", "aarch64", "cortex-a76", ("+dotprod",), dot_product=True),
    "a510": Machine(
        "a510",
        "aarch64",
        "cortex-a510",
        ("+dotprod", "+i8mm"),
        in_order=True,
        dot_product=True,
        matrix_product=True,
    ),
    "x2": Machine("x2", "aarch64", "cortex-x2", ("+dotprod", "+i8mm"), dot_product=True, matrix_product=True),
}
# lines, depth, width, bits, block, zero points ("f32": floats), bias, quantised activations
CASES = [
    (1, 64, 32, 4, 32, False, False, True),
    (5, 70, 21, 4, 32, True, True, True),
    (2, 50, 40, 8, 16, True, False, True),
    (7, 100, 17, 8, 32, False, True, True),
    (1, 300, 16, 4, 128, False, False, True),
    (1, 64, 32, 4, 32, False, True, False),
    (5, 70, 21, 4, 16, True, False, False),
    (3, 67, 19, 8, 64, True, True, False),
    (17, 90, 24, 4, 32, False, True, True),
    (11, 72, 16, 4, 24, True, False, True),
    (12, 128, 33, 8, 64, False, False, True),
    (5, 78, 21, 2, 32, True, True, True),
    (1, 90, 24, 2, 48, False, False, True),
    (3, 67, 19, 2, 16, "f32", True, False),
    (1, 64, 17, 4, 32, "f32", False, False),
    (70, 66, 19, 4, 32, False, True, True),
    (7, 130, 16, 4, 64, True, False, True),
]


def inputs_of(rng: np.random.Generator, case: tuple[Any, ...]) -> tuple[list[Any], dict[str, Any]]:
    """The inputs of a block_matmul, and its attributes."""
    lines, depth, width, bits, block, zeros, bias, quantize = case
    blocks = -(-depth // block)
    scales = rng.uniform(0.001, 0.1, (width, blocks)).astype(np.float32)
    inputs = [
        rng.standard_normal((lines, depth)).astype(np.float32),
        rng.integers(0, 256, (width, blocks * block * bits // 8)).astype(np.uint8),
        scales.astype(np.float16).astype(np.float32) if lines % 2 else scales,
        rng.integers(0, 1 << bits, (width, blocks)).astype(np.uint8) if zeros else None,
        rng.standard_normal(width).astype(np.float32) if bias else None,
    ]
    if zeros == "f32":
        inputs[3] = rng.uniform(-1, 1 << bits, (width, blocks)).astype(np.float32)
    return inputs, {"bits": bits, "block": block, "quantize": quantize}


def graph_of(inputs: list[Any], attrs: dict[str, Any]) -> Graph:
    """A graph of the node, in which all but x, its gate and the residual is constant."""
    names = ["" if array is None else f"x{i}" for i, array in enumerate(inputs)]
    node = make_node("block_matmul", names, ("y",), "tested", **attrs)
    arrays = {name: array for name, array in zip(names, inputs, strict=True) if name}
    types = {name: type_of(array) for name, array in arrays.items()}
    types["y"] = infer(node, types)[0]
    read = tuple(name for name in ("x0", "x5", "x6") if name in arrays)
    known = {name: array for name, array in arrays.items() if name not in read}
    return Graph("test", read, ("y",), (node,), types, known)


def assert_close(computed: np.ndarray, graph: Graph, inputs: list[Any]) -> None:
    """No further than rounding from the definition's results: of sums as large as those of all magnitudes."""
    (expected,) = evaluate(graph.nodes[0], inputs, wide=True)
    x, w, scales, zeros, bias = inputs[:5]
    bits, block = (graph.nodes[0].attr(name) for name in ("bits", "block"))
    numbers = unpack_bits(w, bits, scales.shape[1] * block).astype(np.float64).reshape(*scales.shape, block)
    numbers -= (1 << (bits - 1)) if zeros is None else zeros[..., None]
    weights = (np.abs(numbers) * scales[..., None]).reshape(len(w), -1)[:, : x.shape[1]]
    largest = np.abs(x).astype(np.float64) @ weights.T + (0 if bias is None else np.abs(bias))
    assert np.abs(computed - expected).max() <= ERROR * largest.max()


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[pytest.mark.long] if i in (4, 7, 9, 10, 12, 14, 16) else [])
        for i, case in enumerate(CASES)
    ],
    ids=str,
)
def test_every_width_computes_the_same(assert_node: Any, case: tuple[Any, ...]) -> None:
    inputs, attrs = inputs_of(np.random.default_rng(3), case)
    known = [i for i, array in enumerate(inputs) if i and array is not None]
    (computed, *_) = assert_node("block_matmul", inputs, constants=known, compare=False, **attrs)
    assert_close(computed, graph_of(inputs, attrs), inputs)


@pytest.mark.parametrize("case", [CASES[i] for i in (0, 1, 4, 6, 7, 11, 15)], ids=str)
def test_a_residual_is_added_as_an_operator_behind_adds_it(
    assert_node: Any, inside: Any, case: tuple[Any, ...]
) -> None:
    """With lines of the residual and of the result that lie apart, or not."""
    inputs, attrs = inputs_of(np.random.default_rng(4), case)
    known = [i for i, array in enumerate(inputs) if i and array is not None]
    (plain, *_) = assert_node("block_matmul", inputs, constants=known, compare=False, **attrs)
    residual = np.random.default_rng(5).standard_normal(plain.shape).astype(np.float32)
    lines = {name: inside("f32", plain.shape) for name in ("x6", "y")}
    for views in (None, lines):
        (computed, *_) = assert_node(
            "block_matmul", [*inputs, None, residual], constants=known, compare=False, views=views, **attrs
        )
        assert computed.tobytes() == (plain + residual).tobytes()


@pytest.mark.long
@settings(max_examples=150)
@given(
    st.integers(1, 9),
    st.integers(1, 200),
    st.integers(1, 70),
    st.sampled_from([(2, 16), (2, 48), *((bits, block) for bits in (4, 8) for block in (8, 16, 24, 32, 64, 96))]),
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
    st.integers(0, 1 << 20),
)
def test_products_of_any_sizes_have_the_same_bits_at_every_width(
    lines: int, depth: int, width: int, form: tuple[int, int], ends: Any, seed: int
) -> None:
    inputs, attrs = inputs_of(np.random.default_rng(seed), (lines, depth, width, *form, *ends))
    graph = graph_of(inputs, attrs)
    results = [
        run_node_on(machine, graph.nodes[0], graph, {"x0": inputs[0]}, parts=1 + seed % 3, optimised=False)[0]
        for machine in machines_of_all_widths()
    ]
    assert_close(results[0], graph, inputs)
    assert all(result.tobytes() == results[0].tobytes() for result in results)


def test_lines_with_gaps(assert_node: Any, inside: Any) -> None:
    inputs, attrs = inputs_of(np.random.default_rng(1), CASES[1])
    views = {"x0": View("f32", (5, 70), (160, 2)), "y": View("f32", (5, 21), (1, 5))}
    for quantize in (True, False):
        attrs["quantize"] = quantize
        (computed, *_) = assert_node(
            "block_matmul", inputs, constants=[1, 2, 3, 4], compare=False, views=views, **attrs
        )
        assert_close(computed, graph_of(inputs, attrs), inputs)


@pytest.mark.parametrize("special", [np.nan, np.inf, 0.0])
def test_special_activations(assert_node: Any, special: float) -> None:
    inputs, attrs = inputs_of(np.random.default_rng(1), CASES[0])
    inputs[0][0, :32] = special
    for quantize in (True, False):
        attrs["quantize"] = quantize
        (computed, *_) = assert_node("block_matmul", inputs, constants=[1, 2], compare=False, **attrs)
        assert np.isfinite(computed).all() == np.isfinite(special)


@pytest.mark.parametrize("special", [0.0, -0.0, np.nan, -np.inf, 3e38, 8e-37, 7e-37, 3e-39, -1e-45])
def test_blocks_of_a_group_are_quantised_as_each_by_itself(special: float) -> None:
    """Blocks are in groups where vectors of 16 channels are, and not where lines lie in pairs."""
    rng = np.random.default_rng(4)
    inputs, attrs = inputs_of(rng, (3, 32 * 19 + 5, 16, 4, 32, True, False, True))
    graph = graph_of(inputs, attrs)
    x = inputs[0]
    x[0, 70], x[1, 96:128], x[2, 600] = special, special, special
    results = [
        run_node_on(machine, graph.nodes[0], graph, {"x0": x}, parts=2, packing=Packing(lanes), optimised=False)[0]
        for machine in machines_of_all_widths()
        for lanes in (16, 8)
        if lanes == 16 or machine.vector_bytes <= 32
    ]
    assert np.isfinite(results[0]).all() == (np.isfinite(special) and abs(special) < 1e38)
    known = ~np.isnan(results[0])
    for result in results[1:]:
        assert (np.isnan(result) == ~known).all() and result[known].tobytes() == results[0][known].tobytes()


@pytest.mark.parametrize(("lines", "depth"), [(1, 70), (3, 32 * 33 + 5), (4, 2 * 1024)])
def test_gated_activations_have_the_bits_of_operators_before_the_product(lines: int, depth: int) -> None:
    """Lines are whole rows of work, or a part of one; gaps between them are those in a merged product."""
    rng = np.random.default_rng(6)
    inputs, attrs = inputs_of(rng, (lines, depth, 19, 4, 32, False, True, True))
    gate = rng.standard_normal((lines, depth)).astype(np.float32) * 4
    gated = graph_of([*inputs, gate], attrs)
    views = {name: View("f32", (lines, depth), (2 * depth + 3, 1)) for name in ("x0", "x5")}
    apart = graph_of(inputs, attrs)
    nodes = [make_node("silu", ["x5"], ["s"]), make_node("mul", ["s", "x0"], ["t"])]
    types = {name: type_of(gate) for name in ("x0", "x5", "s", "t")}
    graphs = [Graph("g", node.inputs, node.outputs, (node,), types) for node in nodes]
    for machine in machines_of_all_widths():
        (s,) = run_node_on(machine, nodes[0], graphs[0], {"x5": gate}, optimised=False)
        (t,) = run_node_on(machine, nodes[1], graphs[1], {"s": s, "x0": inputs[0]}, optimised=False)
        for lanes in (16, 8):
            if lanes == 16 or machine.vector_bytes <= 32:
                form: dict[str, Any] = {"parts": 2, "packing": Packing(lanes), "optimised": False}
                (expected,) = run_node_on(machine, apart.nodes[0], apart, {"x0": t}, **form)
                given = {"x0": inputs[0], "x5": gate}
                for placed in ({}, views):
                    (result,) = run_node_on(machine, gated.nodes[0], gated, given, views=placed, **form)
                    assert result.tobytes() == expected.tobytes()
    assert_close(expected, apart, [t, *inputs[1:]])
    (defined,) = evaluate(gated.nodes[0], [*inputs, gate], wide=True)
    np.testing.assert_allclose(expected, defined, rtol=0.05, atol=0.05 * np.abs(defined).max())


@pytest.mark.long
@pytest.mark.parametrize("core", ["a53", "a55", "a510", "x2"])
def test_emulated_cores_compute_the_same(core: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    cases = [inputs_of(rng, case) for case in CASES]
    inputs, attrs = inputs_of(rng, (3, 70, 21, 4, 32, False, False, True))
    cases.append(([*inputs, 3 * inputs[0][::-1]], attrs))  # with a gate
    graphs = [graph_of(*case) for case in cases]
    given = [{"x0": inputs[0], **({"x5": inputs[5]} if len(inputs) > 5 else {})} for inputs, _ in cases]
    nodes = [emulated_node(graph, arrays) for graph, arrays in zip(graphs, given, strict=True)]
    computed = run_emulated(nodes, ARM[core], tmp_path)
    host = machines_of_all_widths()[0]
    for graph, arrays, result in zip(graphs, given, computed, strict=True):
        (here,) = run_node_on(host, graph.nodes[0], graph, arrays, optimised=False)
        assert result.tobytes() == here.tobytes()


@pytest.mark.long
@pytest.mark.parametrize(
    ("machine", "instruction"), [("a76", r"sdot\s+v\d+\.4s"), ("a53", r"s(mlal|mull)2?\s+v\d+\.8h")]
)
def test_cores_use_what_they_have(machine: str, instruction: str, tmp_path: Path) -> None:
    inputs, attrs = inputs_of(np.random.default_rng(0), CASES[0])
    node = emulated_node(graph_of(inputs, attrs), {"x0": inputs[0]})
    text = compiled([node], ARM[machine], tmp_path, "asm").read_text()
    assert "mmla" not in text  # one line has no other to be multiplied with
    assert len(re.findall(instruction, text)) >= 8
    assert not re.search(r"^\s+bl\s", text, re.M)  # it calls nothing


@pytest.mark.long
@pytest.mark.parametrize("core", ["a510", "x2"])
@pytest.mark.parametrize(("bits", "instruction"), [(4, r"\ssmmla\s"), (8, r"\susmmla\s")])
def test_lines_of_a_prompt_are_products_of_matrices(core: str, bits: int, instruction: str, tmp_path: Path) -> None:
    inputs, attrs = inputs_of(np.random.default_rng(0), (8, 64, 32, bits, 32, False, False, True))
    node = emulated_node(graph_of(inputs, attrs), {"x0": inputs[0]})
    text = compiled([node], ARM[core], tmp_path, "asm").read_text()
    assert len(re.findall(instruction, text)) == 32  # of four lines, eight channels and a block of 32 terms
    assert "sdot" not in text


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_packed_weights_take_their_bits_and_a_scale_a_block(bits: int) -> None:
    inputs, attrs = inputs_of(np.random.default_rng(0), (1, 256, 64, bits, 32, False, False, True))
    graph = graph_of(inputs, attrs)
    steps = lower(graph.nodes[0], graph, {n: dense_view(t) for n, t in graph.types.items()}, Packing(16))
    (packed,) = [o.constant for step in steps for o in step.operands if o.constant is not None]
    assert packed is not None and packed.nbytes == 256 * 64 * bits // 8 + 8 * 64 * 2  # scales that f16 holds
    product = steps[-1].spec
    assert isinstance(product, BlockProduct) and product.macs == 256 * 64


def test_packing_keeps_every_number_of_2_bits() -> None:
    rng = np.random.default_rng(2)
    w, scales = rng.integers(0, 256, (5, 16)).astype(np.uint8), rng.random((5, 2)).astype(np.float32)
    points = rng.random((5, 2)).astype(np.float32)
    form = BlockFormat(2, 32, 4, "f16", True, float_zeros=True)
    packed = pack_blocks_with_zeros(w, scales, points, form)
    assert packed.shape == (2, 2, form.block_bytes) == (2, 2, 4 * (8 + 2 + 4))
    numbers = packed[..., : form.number_bytes].reshape(2, 2, 2, 4, 4)  # panel, block, unit, channel, byte
    parts = np.stack([numbers >> at & 3 for at in (0, 2, 4, 6)], axis=4).reshape(2, 2, 2, 4, 16)
    np.testing.assert_array_equal(parts.transpose(0, 3, 1, 2, 4).reshape(8, 64)[:5], unpack_bits(w, 2, 64))
    kept = packed[..., form.zeros_at :].copy().view(np.float32)
    np.testing.assert_array_equal(kept.transpose(0, 2, 1).reshape(8, 2)[:5], points)


@pytest.mark.parametrize(("lines", "chunks"), [(1, 1), (64, 8)])
def test_activations_of_a_prompt_are_quantised_by_several_threads(lines: int, chunks: int) -> None:
    """A single token has one chunk; a second is not worth its start."""
    spec = QuantizedBlocks(Lines(lines, 768, 768, 1), 32, -8)
    assert -(-spec.rows // call_rows(spec)[0]) == chunks


@pytest.mark.parametrize("zeros", [False, True])
def test_packing_keeps_every_number(zeros: bool) -> None:
    rng = np.random.default_rng(2)
    w, scales = rng.integers(0, 256, (5, 32)).astype(np.uint8), rng.random((5, 2)).astype(np.float32)
    points = rng.integers(0, 16, (5, 2)).astype(np.uint8)
    form = BlockFormat(4, 32, 4, "f32", zeros)
    packed = pack_blocks_with_zeros(w, scales, points, form) if zeros else pack_blocks(w, scales, form)
    assert packed.shape == (2, 2, form.block_bytes)
    numbers = packed[..., : form.number_bytes].reshape(2, 2, 4, 4, 4)  # panel, block, unit, channel, byte
    halves = np.stack([numbers & 15, numbers >> 4], axis=4).reshape(2, 2, 4, 4, 8)
    rows = halves.transpose(0, 3, 1, 2, 4).reshape(8, 64)
    np.testing.assert_array_equal(rows[:5], unpack_bits(w, 4, 64))
    kept = packed[..., form.number_bytes : form.zeros_at].copy().view(np.float32)
    np.testing.assert_array_equal(kept.transpose(0, 2, 1).reshape(8, 2)[:5], scales)
    if zeros:
        np.testing.assert_array_equal(packed[..., form.zeros_at :].transpose(0, 2, 1).reshape(8, 2)[:5], points)


def test_weights_of_the_run_are_refused() -> None:
    inputs, attrs = inputs_of(np.random.default_rng(0), CASES[0])
    graph = graph_of(inputs, attrs)
    unknown = Graph("test", graph.inputs, graph.outputs, graph.nodes, graph.types)
    with pytest.raises(MavcgError, match="node 'tested' .*weights are computed in the run"):
        lower(graph.nodes[0], unknown, {n: dense_view(t) for n, t in graph.types.items()}, Packing(16))


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"bits": 3}, "bits 3 in blocks of 32"),
        ({"bits": 2, "block": 24}, "bits 2 in blocks of 24; 2, 4 or 8 bits in blocks of a multiple of 16"),
        ({"block": 12}, "blocks of 12"),
        ({"block": 1 << 21}, "blocks of 2097152 numbers, whose sums take more than 32 bits"),
        ({"block": 16}, r"w u8\[32,32\] where \[32, 32\] is needed|scales"),
    ],
)
def test_bad_nodes_are_refused_with_a_reason(changed: dict[str, Any], problem: str) -> None:
    inputs, attrs = inputs_of(np.random.default_rng(0), CASES[0])
    with pytest.raises(MavcgError, match=f"node 'tested' .*({problem})"):
        graph_of(inputs, attrs | changed)


def test_quantised_activations_need_whole_zero_points() -> None:
    inputs, attrs = inputs_of(np.random.default_rng(0), (1, 64, 8, 4, 32, "f32", False, True))
    with pytest.raises(MavcgError, match="node 'tested' .*quantised activations with zero points that are no whole"):
        graph_of(inputs, attrs)


@pytest.mark.parametrize(
    ("shape", "quantize", "problem"),
    [((1, 63), True, r"gate f32\[1,63\] where f32\[1,64\] is needed"), ((1, 64), False, "not quantised")],
)
def test_gates_that_no_kernel_applies_are_refused(shape: tuple[int, int], quantize: bool, problem: str) -> None:
    inputs, attrs = inputs_of(np.random.default_rng(0), CASES[0])
    with pytest.raises(MavcgError, match=f"node 'tested' .*{problem}"):
        graph_of([*inputs, np.zeros(shape, np.float32)], attrs | {"quantize": quantize})


@pytest.mark.parametrize("shape", [(1, 21), (2, 20), (21,)])
def test_residuals_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    inputs, attrs = inputs_of(np.random.default_rng(0), (2, 64, 21, 4, 32, False, False, True))
    with pytest.raises(MavcgError, match="residual .* is needed"):
        graph_of([*inputs, None, np.zeros(shape, np.float32)], attrs)
