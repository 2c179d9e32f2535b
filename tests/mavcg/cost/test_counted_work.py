"""Cycles of counted work: against the definition of convolutions, and term by term against the facts of a core."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.cost.board_model import core_model
from mavcg.cost.counted_work import ALONE, Run, counted_cycles
from mavcg.cost.cycles import Cycles
from mavcg.hardware.accelerator import MemoryLevel
from mavcg.hardware.issue_rates import InstructionMix
from mavcg.hosts.host import find_board
from mavcg.kernels.gemm.register_tile import choose
from mavcg.kernels.primitives.registry import all_primitives
from mavcg.specs.primitive import Epilogue, Scenario
from mavcg.specs.work_counts import (
    LoopWork,
    OperandBytes,
    TileProduct,
    VectorWork,
    WeightReads,
    WorkCounts,
    WorkUnit,
    vector_work,
)
from tests.conftest import examples

LEVELS = tuple(MemoryLevel(name, gb, shared_bytes=size) for name, gb, size in (("L1", 8.0, 1024), ("L2", 2.0, 65536)))
CORE = replace(core_model(find_board("exynos9820"), 0), levels=LEVELS)  # a Cortex-A55
FIT = replace(CORE.fit.primitives, tile_cycles=0.0, bytes_exposed=1.0)


def terms(counts: WorkCounts, run: Run = ALONE) -> dict[str, float]:
    return dict(counted_cycles(counts, CORE, run, FIT).terms)


@settings(max_examples=examples(30, 7))
@given(
    st.integers(1, 5),
    st.integers(3, 9),
    st.integers(3, 9),
    st.sampled_from([1, 3]),
    st.integers(1, 9),
    st.integers(1, 2),
)
def test_products_of_plain_sums_are_the_multiply_adds_of_the_definition(
    c: int, h: int, w: int, k: int, m: int, groups: int
) -> None:
    scenario = Scenario(c * groups, h, w, 1, k, m * groups, k // 2, groups)
    zeros = np.broadcast_to(np.float32(0), scenario.weights_shape)
    counted = 0
    for primitive in all_primitives():
        planar = primitive.layout_in != "CHWc" and primitive.layout_out != "CHWc"
        if primitive.applies(scenario) and primitive.plain_sums and planar:
            stages = primitive.lower(scenario, zeros, Epilogue(), 8).stages
            counts = [stage.spec.counts(CORE.machine, 0.0) for stage in stages]
            products = [product for one in counts if one is not None for product in one.products]
            macs = sum(product.rows * product.columns * product.terms * product.times for product in products)
            if products:
                counted += 1
                assert macs == pytest.approx(scenario.macs), primitive.name
    assert counted > 10


def test_a_product_takes_the_cycles_of_its_register_tiles() -> None:
    product = TileProduct("product_implicit", 6, 10, 30, times=4)
    cycles = choose(CORE.machine, 6, 3, 30).cycles * 30 * 4

    assert terms(WorkCounts(products=(product,)))["product_implicit"] == pytest.approx(
        cycles * FIT.cycles["product_implicit"]
    )
    assert terms(WorkCounts(products=(product, product))) == pytest.approx(
        {"product_implicit": 2 * cycles * FIT.cycles["product_implicit"]}
    )


def test_ends_of_tiles_count_each() -> None:
    product = TileProduct("product_implicit", 6, 10, 30, times=4)
    tiling = choose(CORE.machine, 6, 3, 30)
    tiles = (tiling.widths.count + tiling.widths.count_less) * -(-3 // tiling.vectors) * 4
    without, with_ends = (
        counted_cycles(WorkCounts(products=(product,)), CORE, constants=replace(FIT, tile_cycles=cycles)).total
        for cycles in (0.0, 10.0)
    )
    assert with_ends - without == pytest.approx(10 * tiles * FIT.cycles["product_implicit"])


def test_vector_work_counts_full_vectors_and_waits() -> None:
    elements, vectors = VectorWork("copy", 80), VectorWork("copy", 20, WorkUnit.VECTORS)
    chained = VectorWork("product_scalar", 5, WorkUnit.CHAINED)

    assert terms(WorkCounts(vectors=(elements,))) == terms(WorkCounts(vectors=(vectors,)))
    assert terms(WorkCounts(vectors=(chained,)))["product_scalar"] == pytest.approx(
        5 * CORE.fit.register_tile.fma_latency * FIT.cycles["product_scalar"]
    )
    assert vector_work(("copy", 0.0), ("turn", 3.0)) == (VectorWork("turn", 3.0),)


def test_a_loop_takes_the_cycles_of_its_mix() -> None:
    mix = InstructionMix(fma=8, loads=3, other=4, chain=1)

    assert terms(WorkCounts(loops=(LoopWork("sparse", mix, 7, 0),))) == pytest.approx(
        {"sparse": 7 * mix.cycles(CORE.rates) * FIT.cycles["sparse"]}
    )


def test_bytes_come_from_the_nearest_level_that_holds_what_is_touched() -> None:
    def read(touched: int) -> dict[str, float]:
        return terms(WorkCounts(within=OperandBytes(500, touched)))

    assert read(1024) == {}  # level 1 holds it
    assert read(1025) == pytest.approx({"bytes L2": 500 / 8.0 * CORE.ghz})
    assert read(65537) == pytest.approx({"bytes memory": 500 / 2.0 * CORE.ghz})


def test_what_stages_pass_on_is_as_far_as_its_kernel_says_and_an_image_as_far_as_the_run() -> None:
    counts = WorkCounts(read=OperandBytes(400, 70000), written=OperandBytes(300))

    assert terms(counts) == {}
    assert terms(counts, Run(image_bytes=2000)) == pytest.approx({"bytes L2": 700 / 8.0 * CORE.ghz})
    assert terms(counts, Run(image_bytes=2000, read_passed=True, write_passed=True)) == pytest.approx(
        {"bytes memory": 400 / 2.0 * CORE.ghz}
    )


@pytest.mark.parametrize(
    ("weights", "run", "reads"),
    [
        (WeightReads(2000), ALONE, {"bytes L2": 1}),
        (WeightReads(2000, 3.0), ALONE, {"bytes L2": 3}),
        (WeightReads(2000, 3.0), Run(readers=4), {"bytes L2": 4}),
        (WeightReads(2000, divided=True), Run(readers=4), {"bytes L2": 1}),
        (WeightReads(2000, 3.0), Run(between_bytes=1e6), {"bytes memory": 1, "bytes L2": 2}),
        (WeightReads(2000), Run(weight_bytes=80000), {"bytes memory": 1}),
    ],
)
def test_weights_are_read_once_from_where_the_network_left_them_and_then_nearer(
    weights: WeightReads, run: Run, reads: dict[str, int]
) -> None:
    rates = {"bytes L2": 8.0, "bytes memory": 2.0}
    expected = {name: count * 2000 / rates[name] * CORE.ghz for name, count in reads.items()}

    assert terms(WorkCounts(weights=weights), run) == pytest.approx(expected)


def test_sums_of_cycles_keep_their_terms() -> None:
    both = Cycles({"copy": 1.0, "turn": 2.0}) + Cycles({"turn": 3.0})

    assert both == Cycles({"copy": 1.0, "turn": 5.0}) and both.total == 6.0


def test_a_roof_is_awaited_beyond_the_terms() -> None:
    bound, free = Cycles({"copy": 3.0}, {"L1": 2.0, "L2": 10.0}), Cycles({"copy": 1.0}, {"L1": 0.5})

    assert (bound.total, free.total) == (10.0, 1.0)
    assert bound + free == Cycles({"copy": 4.0, "bandwidth": 7.0})
