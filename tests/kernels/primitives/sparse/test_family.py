"""The sparse family: how sparsity is measured and stored, results at every sparsity, and when it is chosen."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.choose.algorithms.choice import make_problem
from mavcg.choose.algorithms.costs.modelled import modelled_costs
from mavcg.choose.algorithms.costs.rows import text_of, what_of
from mavcg.choose.algorithms.network import network_of
from mavcg.choose.algorithms.select_workers import board_of, workers_of
from mavcg.choose.algorithms.strategies import select
from mavcg.errors import MavcgError
from mavcg.graph import TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.kernels.primitives.common import Image
from mavcg.kernels.primitives.registry import all_primitives
from mavcg.kernels.primitives.sparse.family import (
    BLOCK_ROWS,
    PRIMITIVES,
    mask_of,
    measured_sparsity,
    pack_sparse,
    packed_bytes,
    packed_elements,
    with_sparsity,
)
from mavcg.kernels.primitives.sparse.product import SparseProduct
from mavcg.lab.trials.check import CheckCase
from mavcg.passes.graph.pipeline import optimise
from mavcg.specs.primitive import Epilogue, Layout, Scenario
from tests.kernels.primitives.conftest import assert_right, host_block, machine_of

POINTWISE = Scenario(16, 5, 27, 1, 1, 18)
SPARSITIES = ((0, 0), (50, 0), (90, 0), (90, 90), (100, 100))


@pytest.mark.parametrize("primitive", PRIMITIVES, ids=lambda primitive: primitive.name)
def test_agrees_with_the_dense_convolution_at_every_sparsity(primitive: Any) -> None:
    epilogue = Epilogue(bias=True, residual=True, act="relu")
    cases = [
        CheckCase(primitive, replace(POINTWISE, sparsity=a, block_sparsity=b), epilogue, i, host_block())
        for i, (a, b) in enumerate(SPARSITIES)
    ]
    for result in assert_right(cases, machine_of("host"), optimised=False):
        assert result.max_error < 1e-5


@pytest.mark.parametrize(("sparsity", "blocks"), [(0, 0), (50, 0), (70, 50), (95, 90), (100, 100)])
def test_a_pattern_has_the_sparsity_that_is_measured(sparsity: int, blocks: int) -> None:
    scenario = Scenario(64, 4, 4, 1, 3, 64, 1, sparsity=sparsity, block_sparsity=blocks)

    assert measured_sparsity(mask_of(scenario).astype(np.float32))[0] == sparsity
    assert measured_sparsity(mask_of(scenario).astype(np.float32))[1] >= blocks
    assert with_sparsity(scenario.dense, np.zeros((64, 64, 3, 3))).sparsity == 100
    assert with_sparsity(scenario.dense, np.ones((64, 64, 3, 3))) == scenario.dense


def test_few_zeros_count_for_none() -> None:
    weights = np.ones((10, 10), np.float32)
    weights[:2] = 0
    assert measured_sparsity(weights) == (0, 0)
    weights[:4] = 0
    assert measured_sparsity(weights) == (40, 30)  # of three rows of blocks the first is zero: 33 %, rounded down


@given(st.integers(1, 9), st.integers(1, 12), st.sampled_from((1, BLOCK_ROWS)), st.integers(0, 99))
def test_packed_weights_are_the_matrix(m: int, terms: int, rows: int, seed: int) -> None:
    source = np.random.default_rng(seed)
    matrix = (source.standard_normal((m, terms)) * (source.random((m, terms)) < 0.3)).astype(np.float32)
    packed = pack_sparse(matrix, rows, 40)
    blocks = -(-m // rows)
    spec = SparseProduct(terms, 40, Image(m, 1, 10, Layout.CHW, 1), rows, Epilogue())
    counts, entries = packed[: blocks + 1].view(np.int32), packed[blocks + 1 :].reshape(-1, 1 + rows)
    assert spec.loaded_iterations(packed.nbytes) == pytest.approx(len(entries) / blocks)
    unpacked = np.zeros((blocks * rows, terms), np.float32)
    for block in range(blocks):
        for entry in entries[counts[block] : counts[block + 1]]:
            unpacked[block * rows : (block + 1) * rows, entry[:1].view(np.int32)[0] // 40] = entry[1:]

    assert packed.size == packed_elements(matrix, rows)
    np.testing.assert_array_equal(unpacked[:m], matrix)


def test_the_size_follows_from_the_percentages() -> None:
    scenario = Scenario(64, 8, 8, 1, 3, 64, 1, sparsity=90, block_sparsity=80)
    for primitive in PRIMITIVES:
        rows = primitive.block_rows  # type: ignore[attr-defined]
        taken = primitive.lower(scenario, mask_of(scenario).astype(np.float32), Epilogue(), 8).weights_bytes
        assert taken == pytest.approx(packed_bytes(scenario, rows), rel=0.1)  # some blocks lose all that they have
    assert packed_bytes(scenario, 1) < 64 * 576 * 4 / 4


def test_a_table_of_costs_keeps_sparsity_and_old_ones_have_none() -> None:
    scenario = Scenario(8, 8, 8, 1, 1, 8)
    assert what_of(text_of((replace(scenario, sparsity=90), "p"))) == (replace(scenario, sparsity=90), "p")
    assert "sparsity" not in text_of((scenario, "p")) and what_of(text_of((scenario, "p"))) == (scenario, "p")


def network(density: float) -> Any:
    """Two pointwise convolutions of 64 channels with so many weights that are not zero."""
    source, b = np.random.default_rng(0), GraphBuilder("g")
    x = b.input("x", TensorType("f32", (1, 56, 56, 64)))
    for _ in range(2):
        weights = source.standard_normal((64, 1, 1, 64)) * (source.random((64, 1, 1, 64)) < density)
        x = b.add("relu", [b.add("conv2d", [x, b.constant(weights.astype(np.float32))])])
    return network_of(optimise(b.finish([x])))


@pytest.mark.parametrize(("board", "dense"), [("rk3588", 0.6), ("raspberry-pi-4", 0.8)])
def test_it_is_chosen_where_it_wins_by_the_costs(board: str, dense: float) -> None:
    costs = modelled_costs(workers_of(board_of(board))[0])

    def choose(density: float) -> set[str]:
        problem = make_problem(network(density), costs, all_primitives())
        choice = select(problem).choice
        return {one.primitive.family for one in choice.chosen.values() if one.primitive is not None}

    assert choose(0.02) == {"sparse"}
    assert "sparse" not in choose(1.0) and "sparse" not in choose(dense)


def test_groups_are_refused() -> None:
    with pytest.raises(MavcgError, match="does not compute this scenario"):
        assert_right([CheckCase(PRIMITIVES[0], Scenario(4, 3, 3, 1, 1, 4, 0, 2))], machine_of("host"))
