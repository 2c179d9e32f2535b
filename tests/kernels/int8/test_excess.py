"""Weights in two parts: the parts' sums, what i16 holds of the first, and convolutions with them on every machine."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from mavcg.graph import Graph, Node, type_of
from mavcg.graph.ops import infer, make_node
from mavcg.graph.reference import evaluate
from mavcg.kernels.int8.excess import HEADER_WORDS, WORD_BYTES, excess_table, least_parts, split_weights
from mavcg.kernels.int8.register_tile import SumRun, sums_in_i16
from mavcg.kernels.int8.specs import QConv2d
from mavcg.kernels.registry import lower
from mavcg.specs.kernel import Packing, Step, dense_view
from tests.kernels.conftest import host_machines, run_node_on
from tests.kernels.int8.test_conv2d import ending, numbers
from tests.kernels.int8.test_other_cores import MACHINES, assert_cases, with_packed

Array = NDArray[Any]

WEIGHTS = st.integers(-128, 127) | st.sampled_from([-128, -64, 64, 127])
RUNS = st.builds(SumRun, st.sampled_from([(), ((2, 40),), ((2, 90), (3, 30))]), st.integers(4, 21))
PACKING = Packing(16, byte_pairs=True)


def packed_of(data: st.DataObject, run: SumRun, lanes: int = 3) -> Array:
    """Packed weights of two panels, zero where a run has no term."""
    packed: Array = data.draw(arrays(np.int8, (1, 2, run.steps, lanes, 4), elements=WEIGHTS))
    terms = np.array(run.terms() * (run.steps // run.groups))
    return np.where(terms[:, None] >= 0, packed, 0).astype(np.int8)


@given(st.data(), RUNS, st.sampled_from([1, 2, 4]))
def test_both_parts_are_the_weights_and_i16_holds_sums_of_each(data: st.DataObject, run: SumRun, together: int) -> None:
    packed = packed_of(data, run)
    split = split_weights(packed, run, together)
    total = split.kept.astype(int).reshape(2, run.steps, 3, 4)
    np.add.at(total, (split.panels, split.groups), split.taken.astype(int))
    assert np.array_equal(total.reshape(packed.shape), packed)
    of_runs = split.kept.reshape(-1, run.groups, 3, 4)
    assert sums_in_i16(of_runs) >= together
    pairs = split.taken.reshape(-1, 2).astype(int)
    assert (
        255 * max(pairs.clip(min=0).sum(axis=1).max(initial=0), (-pairs).clip(min=0).sum(axis=1).max(initial=0))
        < 1 << 15
    )
    assert (
        bool(least_parts(packed, run, together))
        == bool(len(split.panels))
        == (sums_in_i16(packed.reshape(of_runs.shape)) < together)
    )


@given(st.data(), RUNS)
def test_a_table_leads_to_each_part_and_to_its_inputs(data: st.DataObject, run: SumRun) -> None:
    packed = packed_of(data, run, 4)
    split = split_weights(packed, run, 2)
    table = excess_table(split, 2, run)
    words, number = len(run.levels) + 1, 0
    for panel in range(2):
        weights, places, count, _ = table[panel * HEADER_WORDS :][:HEADER_WORDS]
        for i in range(count):
            assert split.panels[number] == panel
            of_part = table[weights // WORD_BYTES + i * 4 :][:4].view(np.int8)
            assert np.array_equal(of_part, split.taken[number].reshape(-1))
            *taps, start = table[places // WORD_BYTES + i * words :][:words]
            tap, group = divmod(int(split.groups[number]), run.groups)
            counts = [n for n, _ in run.levels]
            assert tap == (np.ravel_multi_index(taps, counts) if taps else 0)
            assert start == max(0, min(4 * group, run.length - 4))
            number += 1
    assert number == len(split.panels)


def two_part_weights(seed: int, shape: tuple[int, ...]) -> Array:
    """Small weights, of which one in 60 is at the ends of i8, as is its neighbour."""
    rng = np.random.default_rng(seed)
    large = np.repeat(rng.random((*shape[:-1], -(-shape[-1] // 2))) < 1 / 60, 2, axis=-1)[..., : shape[-1]]
    weights = np.where(large, rng.choice([-128, 127], shape), rng.integers(-20, 21, shape))
    return weights.astype(np.int8)


# x, w, attributes: around panels, rows of taps, the last group of a run, groups of channels; one pixel.
SHAPES: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ((1, 8, 13, 64), (40, 1, 1, 64), {}),
    ((1, 5, 9, 20), (33, 3, 3, 20), {}),
    ((1, 9, 9, 37), (24, 3, 3, 37), {"stride": (2, 2)}),
    ((2, 5, 5, 64), (48, 3, 3, 32), {"groups": 2}),
    ((1, 9, 8, 35), (17, 2, 3, 35), {"dilation": (2, 2)}),
    ((1, 1, 1, 200), (57, 1, 1, 200), {}),
    ((1, 8, 13, 64), (72, 1, 1, 64), {"residual": True}),
)


def case(number: int, dtype: str) -> tuple[Node, Graph, dict[str, Array]]:
    """A node of SHAPES with weights in two parts, its graph and its arrays by name."""
    x, w, attrs = SHAPES[number]
    bias, multiplier, result = ending(3, w[1] * w[2] * w[3], w[0], dtype, dtype)
    arrays = {"x": numbers(1, dtype, x), "w": two_part_weights(2, w), "bias": bias, "multiplier": multiplier}
    names = [*arrays, ""]
    result |= {"groups": 1, **attrs}
    if result.pop("residual", False):
        arrays["added"] = numbers(3, dtype, (*x[:3], w[0]))
        names.append("added")
        result |= {"own_lo": -37, "own_hi": 45, "own_scale": 0.83, "residual_scale": -0.41, "residual_zero": 9}
    node = make_node("qconv2d", names, ("y",), "tested", **result)
    known = {name: arrays[name] for name in ("w", "bias", "multiplier")}
    types = {name: type_of(array) for name, array in arrays.items()}
    types["y"] = infer(node, types, known)[0]
    return node, Graph("test", tuple(n for n in arrays if n not in known), ("y",), (node,), types, known), arrays


def lowered(node: Node, graph: Graph) -> Step:
    """The node's step, whose weights are in two parts."""
    (step,) = lower(node, graph, {name: dense_view(kind) for name, kind in graph.types.items()}, PACKING)
    assert isinstance(step.spec, QConv2d) and step.spec.excess and step.spec.in_i16
    return step


@pytest.mark.sample(5)
@pytest.mark.parametrize("dtype", ["u8", "i8"])
@pytest.mark.parametrize("number", range(len(SHAPES)))
def test_convolutions_in_two_parts_have_the_bits_of_the_definition(number: int, dtype: str, thorough: bool) -> None:
    node, graph, arrays = case(number, dtype)
    assert lowered(node, graph)
    (expected,) = evaluate(node, [arrays.get(name) for name in node.inputs])
    for parts, machine in enumerate(host_machines(), 1):
        (computed,) = run_node_on(machine, node, graph, arrays, parts=parts, packing=PACKING, optimised=thorough)
        np.testing.assert_array_equal(computed, expected)


@pytest.mark.parametrize(
    "core", ["x86", "x86 with long vectors", pytest.param("x86 with long vnni", marks=pytest.mark.long)]
)
def test_every_core_of_x86_computes_two_parts(core: str, tmp_path: Path) -> None:
    """Cores with dot products too, though no library has one beside such weights."""
    cases = []
    for number, dtype in ((0, "u8"), (2, "i8"), (4, "u8"), (5, "i8")):
        node, graph, arrays = case(number, dtype)
        inputs = [arrays.get(name) for name in node.inputs]
        cases.append((node, inputs, with_packed(lowered(node, graph), graph)))
    assert_cases(cases, MACHINES[core], tmp_path)
