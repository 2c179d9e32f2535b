"""f16 convolutions and matrix products: the bits of their definition, and the error of that.

The definition is in NumPy: products are added in f16 in the order of the terms, each rounded once, within blocks of at
most 64 terms, and blocks in f16 within groups of at most 1024. Groups are added in f32, and then bias and residual; to
a single group without a residual the bias, rounded, is added in f16.
"""

import re
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.graph import Graph, Node, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.graph.reference import evaluate
from mavcg.kernels.conv.spec import Conv2d, conv_sum
from mavcg.kernels.conv.tiling import prefetches_inputs
from mavcg.kernels.gemm.sum_blocks import SumCut, group_cut, half_cut
from mavcg.kernels.gemm.tile import Sum
from mavcg.kernels.registry import single_inputs
from mavcg.specs.kernel import Machine, Packing
from tests.kernels.conftest import run_node_on
from tests.kernels.conv.half_cases import BIG, CASES, CONV, LITTLE, TRANSPOSED, X86, Array, case, terms_of
from tests.kernels.emulated_steps import EmulatedNode, compiled, emulated_node, run_emulated


@pytest.fixture(scope="module")
def computed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Array]]:
    """Results of every case, by the kernels of an in-order and of an out-of-order core."""
    numbers = range(len(CASES) + len(TRANSPOSED))
    nodes, folder = [case(number)[0] for number in numbers], tmp_path_factory.mktemp("half")
    return {machine.name: run_emulated(nodes, machine, folder / machine.name) for machine in (LITTLE, BIG)}


def parts_of(total: Sum, cut: SumCut | None) -> list[Sum]:
    """The parts of a sum, in order."""
    if cut is None:
        return [total]
    number, iterations = cut
    (count, step), inside = total.levels[number], total.levels[number + 1 :]
    outer = Sum(total.levels[:number]).length
    whole, rest = divmod(count, iterations)
    return [Sum(((n, step), *inside)) for n in [iterations] * whole + [rest] * bool(rest)] * outer


def groups_of(node: EmulatedNode, terms: int) -> list[list[int]]:
    """The lengths of the blocks of each group of a sum."""
    spec = node.steps[-1].spec
    total = conv_sum(spec) if isinstance(spec, Conv2d) else Sum(((terms, 2),))
    groups = parts_of(total, group_cut(total))
    return [[block.length for block in parts_of(group, half_cut(group))] for group in groups]


def defined(node: EmulatedNode, inputs: list[Array | None]) -> Array:
    """The sums by their definition."""
    x, w, bias, residual = inputs
    assert x is not None and w is not None
    left, right = (side.astype(np.float64) for side in terms_of(node, x, w))
    shape = node.graph.shape(node.output)
    total: Array = np.zeros(shape, np.float32)
    k, groups = 0, groups_of(node, left.shape[-1])
    for blocks in groups:
        group: Array = np.zeros(shape, np.float16)
        for length in blocks:
            block: Array = np.zeros(shape, np.float16)
            for _ in range(length):
                # Exact in f64: products of f16 have 22 bits.
                block = (block.astype(np.float64) + left[..., k] * right[..., k]).astype(np.float16)
                k += 1
            group = group + block
        total = total + group.astype(np.float32)
    assert k == left.shape[-1]
    if len(groups) == 1 and residual is None:
        total = total.astype(np.float16) + (np.float16(0) if bias is None else bias.astype(np.float16))
        assert total.dtype == np.float16
    else:
        total = total + (np.float32(0) if bias is None else bias)
        total = total + (np.float32(0) if residual is None else residual.astype(np.float32))
    return np.asarray(total, np.float32)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_products_have_the_bits_of_their_definition(computed: dict[str, list[Array]], number: int) -> None:
    node, inputs = case(number)
    (of_graph,) = node.graph.nodes
    sums = defined(node, inputs)
    little, big = computed["little"][number], computed["big"][number]
    assert little.tobytes() == big.tobytes()
    if of_graph.attr("act") in ("", "relu", "clip"):
        low, high = {"": (-np.inf, np.inf), "relu": (0, np.inf)}.get(of_graph.attr("act"), of_graph.attr("act_args"))
        expected = np.clip(sums, low, high)
        np.testing.assert_array_equal(little, expected.astype(np.float16))


@pytest.mark.parametrize("number", range(len(CASES)))
def test_products_are_near_the_exact_ones(computed: dict[str, list[Array]], number: int) -> None:
    """Within the rounding of each term, and that of the result."""
    node, inputs = case(number)
    (of_graph,) = node.graph.nodes
    (exact,) = evaluate(of_graph, inputs, wide=True)
    sizes = [None if value is None else np.abs(value) for value in inputs]
    (bound,) = evaluate(of_graph.with_attrs(act="", act_args=()), sizes, wide=True)
    groups = groups_of(node, terms_of(node, inputs[0], inputs[1])[0].shape[-1])  # type: ignore[arg-type]
    most = max(max(blocks) + len(blocks) for blocks in groups)
    error = np.abs(computed["little"][number].astype(np.float64) - exact)
    assert np.all(error <= (most + 2) * 2.0**-11 * bound + 1e-3)
    # Roundings are as often up as down.
    assert np.sqrt(np.mean((error / bound) ** 2)) < 2.0**-11


@pytest.mark.parametrize("number", range(len(CASES), len(CASES) + len(TRANSPOSED)))
def test_transposed_convolutions_are_near_the_exact_ones(computed: dict[str, list[Array]], number: int) -> None:
    node, (*inputs, _) = case(number)
    (of_graph,) = node.graph.nodes
    (exact,) = evaluate(of_graph, inputs, wide=True)
    (bound,) = evaluate(
        of_graph.with_attrs(act="", act_args=()), [None if v is None else np.abs(v) for v in inputs], wide=True
    )
    little, big = computed["little"][number], computed["big"][number]
    assert little.tobytes() == big.tobytes()
    np.testing.assert_array_less(np.abs(little - exact), 66 * 2.0**-11 * bound + 1e-3)


@given(st.integers(1, 7), st.integers(1, 7), st.integers(1, 700), st.sampled_from([1, 2]))
def test_blocks_of_terms_cover_a_sum_and_are_short(height: int, width: int, channels: int, apart: int) -> None:
    """apart: the distance between runs of channels, 1 where they continue each other."""
    total = Sum(((height, 1 << 20), (width, apart * channels * 2), (channels, 2)))
    cut = half_cut(total)
    if cut is None:
        assert total.length <= 64
        return
    number, iterations = cut
    inside = Sum(total.levels[number + 1 :]).length
    assert 1 <= iterations < total.levels[number][0] and iterations * inside <= 64
    # Longer blocks would not do.
    assert inside * total.levels[number][0] > 64


@given(st.integers(1, 7), st.integers(1, 7), st.integers(1, 2100), st.sampled_from([1, 2]))
def test_groups_of_blocks_cover_a_sum(height: int, width: int, channels: int, apart: int) -> None:
    """apart: the distance between runs of channels, 1 where they continue each other."""
    total = Sum(((height, 1 << 20), (width, apart * channels * 2), (channels, 2)))
    groups = parts_of(total, group_cut(total))
    assert sum(group.length for group in groups) == total.length and max(group.length for group in groups) <= 1024
    assert len(groups) == 1 or total.length > 1024


@pytest.mark.parametrize("number", [0, 3, 5, 7, 9, 13])
def test_x86_has_the_bits_of_the_definition(number: int) -> None:
    if not llvm.get_host_cpu_features().get("avx512fp16"):
        pytest.skip("no AVX512-FP16")
    node, inputs = case(number)
    (of_graph,) = node.graph.nodes
    (computed,) = run_node_on(X86, of_graph, node.graph, node.inputs, parts=2, packing=Packing(16), optimised=False)
    sums = defined(node, inputs)
    expected = np.maximum(sums, 0) if of_graph.attr("act") == "relu" else sums
    np.testing.assert_array_equal(computed, expected.astype(np.float16))


@pytest.mark.parametrize("machine", [LITTLE, BIG], ids=lambda machine: machine.name)
def test_cores_multiply_by_lane(machine: Machine, tmp_path: Path) -> None:
    """All sums are `fmla` of eight halves; conversions are the ends of blocks only."""
    text = compiled([case(0)[0], case(3)[0]], machine, tmp_path, "asm").read_text()
    lanes = re.findall(r"\bfmla\s+v\d+\.8h, v\d+\.8h, v\d+\.h\[(\d)\]", text)
    assert len(lanes) > 50 and {"0", "1", "2", "3"} <= set(lanes)
    assert not re.search(r"\bfmla\s+v\d+\.(4s|8h, v\d+\.8h, v\d+\.8h)|\bdup\b|\bbl\b", text)


def test_iterations_share_the_prefetches_of_the_next_tiles_inputs(tmp_path: Path) -> None:
    """Also where an iteration is one of a block of terms, whose pixels are further apart than the block.

    Twelve pixels of 256 channels are 96 lines, and a sum has 32 iterations on the big core.
    """
    node = emulated_product(13, 256)
    for machine, lines in ((LITTLE, {1}), (BIG, {1, 3})):
        text = compiled([node], machine, tmp_path, "asm").read_text()
        loops = [block for block in re.split(r"^\.LBB\S+:.*$", text, flags=re.MULTILINE) if block.count("fmla") >= 8]
        assert loops and {block.count("prfm") for block in loops} == lines


def test_inputs_are_prefetched_where_channels_are_the_work_and_all_rows_come_from_afar() -> None:
    """Four rows of 13 pixels with 512 channels have 53 KB, which the next chunk does not find in level 1."""
    for channels, afar in ((512, True), (64, False)):
        (step,) = emulated_product(13, channels, 256).steps
        assert isinstance(step.spec, Conv2d) and step.spec.by_channels
        assert prefetches_inputs(step.spec, BIG, 16) == afar


def test_blocks_begin_with_their_first_products_where_vector_units_are_the_bound(tmp_path: Path) -> None:
    node = emulated_product(13, 256)
    little, big = (compiled([node], machine, tmp_path, "asm").read_text() for machine in (LITTLE, BIG))
    begun = [len(re.findall(r"\bfmul\s+v\d+\.8h", text)) for text in (little, big)]
    assert begun[0] == 0 and begun[1] >= 13


def test_a_product_of_a_pixel_has_the_same_bytes_in_wide_panels(tmp_path: Path) -> None:
    """The sums have several blocks of terms, and the last panel is not full."""
    rng, b = np.random.default_rng(0), GraphBuilder("test")
    shape, weights = (1, 1, 1, 136), rng.standard_normal((150, 1, 1, 136)).astype(np.float16)
    graph = b.finish([b.add("conv2d", [b.input("x", TensorType("f16", shape)), b.constant(weights)], **CONV)])
    inputs = {"x": rng.standard_normal(shape).astype(np.float16)}
    nodes = [emulated_node(graph, inputs, packing=packing) for packing in (Packing(8), Packing(8, pixel_lanes=32))]
    results = {
        result.tobytes()
        for machine in (LITTLE, BIG)
        for node in nodes
        for result in run_emulated([node], machine, tmp_path / f"{machine.name}{nodes.index(node)}")
    }
    assert len(results) == 1


def emulated_product(pixels: int, channels: int, outputs: int = 8) -> EmulatedNode:
    b = GraphBuilder("test")
    x, w = b.input("x", TensorType("f16", (1, 4, pixels, channels))), np.ones((outputs, 1, 1, channels), np.float16)
    return emulated_node(b.finish([b.add("conv2d", [x, b.constant(w)], **CONV)]), {})


def test_a_bias_of_f16_is_refused_and_products_of_f16_have_kernels() -> None:
    b = GraphBuilder("test")
    x, w = b.input("x", TensorType("f16", (2, 3))), b.constant(np.ones((3, 4), np.float16))
    graph = b.finish([b.add("matmul", [x, w, b.constant(np.ones(4, np.float16))])])
    with pytest.raises(MavcgError, match=r"matmul\): its bias is f16; .* cast it to f32"):
        emulated_node(graph, {})
    assert all(single_inputs(*node_and_graph(number)) is not None for number in range(len(CASES)))


def node_and_graph(number: int) -> tuple[Node, Graph]:
    graph = case(number)[0].graph
    return graph.nodes[0], graph
