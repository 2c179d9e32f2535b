"""The exact search against the exhaustive one, and against all tiles there are."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Literal

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from mavcg.accelerators.plans import exact, grid, space
from mavcg.accelerators.plans.exact import ExactOptions
from mavcg.accelerators.plans.graph_layers import layers_of
from mavcg.accelerators.plans.roofline import METRICS, Metric
from mavcg.accelerators.plans.space import NoTiling
from mavcg.cost.layer import ConvLayer, Dataflow, ItemBytes, Tile, Tiling
from mavcg.cost.traffic import tile_bytes
from mavcg.errors import MavcgError
from mavcg.graph.networks import NAMES, network
from mavcg.hardware.accelerator import Accelerator, MemoryLevel
from mavcg.profiles.accelerators import find_accelerator
from tests.conftest import examples

SETUPS = ("A", "B", "C", "D")


def setup(name: str) -> Accelerator:
    return find_accelerator(f"setup-{name.lower()}")


def agrees_with_exhaustive(name: str, accelerator: Accelerator, metric: Metric) -> None:
    """On each layer that is not the same as one before, with both fit tests."""
    for layer in {layer.key: layer for layer in layers_of(network(name, paper_variant=True))}.values():
        for halo in (False, True):
            planned = exact.search(layer, accelerator, metric, ExactOptions(halo_fits=halo))
            reference = grid.search_exhaustively(layer, accelerator, metric, halo=halo)
            assert metric(planned.reached) == metric(reference.reached), layer
            assert planned.reached.traffic.total_bytes <= reference.reached.traffic.total_bytes
            assert space.fits(layer, planned.tiling.tile, accelerator, halo)


@pytest.mark.spread
@pytest.mark.parametrize(("name", "of"), [("alexnet", "A"), ("squeezenet", "A"), ("squeezenet", "B")])
@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_exact_is_exhaustive(name: str, of: str, metric: Metric) -> None:
    agrees_with_exhaustive(name, setup(of), metric)


@pytest.mark.long
@pytest.mark.parametrize("of", SETUPS)
@pytest.mark.parametrize("name", NAMES)
def test_exact_is_exhaustive_everywhere(name: str, of: str) -> None:
    for metric in METRICS.values():
        agrees_with_exhaustive(name, setup(of), metric)


@pytest.mark.parametrize(
    ("name", "of", "mebibytes"), [("vgg16", "A", 702.2), ("resnet50", "A", 190.6), ("yolov2", "B", 461.8)]
)
def test_optimum_of_the_papers_grid(name: str, of: str, mebibytes: float) -> None:
    """What pruning misses: it moves 801.9, 226.2 and 552.7 MiB for these."""
    layers = layers_of(network(name, paper_variant=True))
    moved = sum(exact.search(layer, setup(of)).reached.traffic.total_bytes for layer in layers)
    assert round(moved / 2**20, 1) == mebibytes
    pruned_moved = sum(grid.search_pruned(layer, setup(of)).reached.traffic.total_bytes for layer in layers)
    assert pruned_moved > 1.1 * moved


def test_few_candidates_are_looked_at() -> None:
    layers = layers_of(network("vgg16", paper_variant=True))
    machine = setup("A")
    looked_at = sum(exact.search(layer, machine).candidates for layer in layers)
    grids = (space.axes(layer, machine, space.initial_tile(layer, machine)) for layer in layers)
    assert looked_at * 100 < sum(map(space.size, grids))


# -- all tiles of small layers, one by one --------------------------------------------------------------------------


@st.composite
def layers(draw: st.DrawFn, most_tiles: int) -> ConvLayer:
    oc, ic, oh, ow = (draw(st.integers(1, 9)) for _ in range(4))
    kh, kw = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    assume(oc * ic * oh * ow * kh * kw <= most_tiles)
    stride, dilation = (
        draw(st.tuples(st.integers(1, 3), st.integers(1, 3))),
        draw(st.tuples(st.integers(1, 2), st.integers(1, 2))),
    )
    down, across = (oh - 1) * stride[0] + (kh - 1) * dilation[0] + 1, (ow - 1) * stride[1] + (kw - 1) * dilation[1] + 1
    # More rows than windows reach, or padding for those that are missing.
    spare, top, left, bottom, right = (draw(st.integers(0, 2)) for _ in range(5))
    items = draw(st.sampled_from([ItemBytes(), ItemBytes(1, 1, 1, 4), ItemBytes(2, 1, 2, 4), ItemBytes(8, 8, 8, 8)]))
    return ConvLayer(
        "small",
        oc,
        ic,
        oh,
        ow,
        kh,
        kw,
        max(1, down + spare - top - bottom),
        max(1, across + spare - left - right),
        stride,
        (top, left, bottom, right),
        dilation,
        draw(st.integers(1, 2)),
        items,
    )


@st.composite
def accelerators(draw: st.DrawFn) -> Accelerator:
    size = st.integers(4, 600)
    if draw(st.booleans()):
        level = MemoryLevel("shared", draw(st.sampled_from([0.1, 1.0, 30.0])), shared_bytes=draw(st.integers(12, 1500)))
    else:
        level = MemoryLevel("apart", draw(st.sampled_from([0.1, 1.0, 30.0])), draw(size), draw(size), draw(size))
    mapping = draw(st.sampled_from([("IC", "OC"), ("OC", "OW"), ("OH", "OW"), ("KH", "IC")]))
    lengths = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    return Accelerator("small", 1.0, (level,), lengths, ((mapping[0],), (mapping[1],)))


def every_tile(layer: ConvLayer, accelerator: Accelerator, options: ExactOptions) -> Iterator[Tile]:
    """All that fit, by the grid's definition."""
    loops = layer.loops
    factors = {name: range(1, length + 1) for name, length in loops.items()}
    if options.grid == "pe":
        mapped = {name for names in accelerator.pe_mapping for name in names}
        for name, length in loops.items():
            step = accelerator.parallel(name)
            if name in mapped:
                factors[name] = [n for n in range(1, length + 1) if n % step == 0 or n == length]  # type: ignore[assignment]
            elif name in ("OW", "KH", "KW"):
                factors[name] = range(length, length + 1)
    copies = 2 if options.double_buffer else 1
    for tile in (Tile(*values) for values in product(*factors.values())):
        if accelerator.memory.holds(*(copies * n for n in tile_bytes(layer, tile, options.halo_fits))):
            yield tile


def best_value(layer: ConvLayer, accelerator: Accelerator, metric: Metric, options: ExactOptions) -> float | None:
    tilings = (Tiling(tile, flow) for tile in every_tile(layer, accelerator, options) for flow in Dataflow)
    return max((metric(exact.performance_of(layer, t, accelerator, options)) for t in tilings), default=None)


OPTIONS = st.builds(
    ExactOptions,
    model=st.sampled_from(["paper", "halo"]),
    grid=st.sampled_from(["pe", "full"]),
    double_buffer=st.booleans(),
    tile_roof=st.booleans(),
)


@settings(max_examples=examples(80, 10), suppress_health_check=[HealthCheck.filter_too_much])
@given(layers(160), accelerators(), OPTIONS, st.sampled_from(list(METRICS.values())), st.booleans())
def test_no_tile_is_better(
    layer: ConvLayer, accelerator: Accelerator, options: ExactOptions, metric: Metric, in_turns: bool
) -> None:
    if not options.double_buffer:
        options = replace(options, overlap=not in_turns, halo_fits=options.model == "halo" or in_turns)
    reference = best_value(layer, accelerator, metric, options)
    if reference is None:
        with pytest.raises(NoTiling, match="layer small: no tile fits"):
            exact.search(layer, accelerator, metric, options)
        return
    planned = exact.search(layer, accelerator, metric, options)
    assert metric(planned.reached) == reference
    assert planned.tiling.tile in set(every_tile(layer, accelerator, options))
    assert planned.reached == exact.performance_of(layer, planned.tiling, accelerator, options)


def least_by_equations(layer: ConvLayer, accelerator: Accelerator) -> int | None:
    """Bytes of the best of all tiles, from the equations as they stand, without anything of the planner."""
    oc, ic, oh, ow, kh, kw = np.ix_(*(np.arange(1, n + 1) for n in layer.loops.values()))
    n_oc, n_ic, n_oh, n_ow, n_kh, n_kw = (
        np.ceil(n / factor) for n, factor in zip(layer.loops.values(), (oc, ic, oh, ow, kh, kw), strict=True)
    )
    rows = np.minimum((oh - 1) * layer.stride[0] + (kh - 1) * layer.dilation[0] + 1, layer.ih)
    columns = np.minimum((ow - 1) * layer.stride[1] + (kw - 1) * layer.dilation[1] + 1, layer.iw)
    items = layer.items
    sizes = (
        items.input * ic * rows * columns,
        items.weight * oc * ic * kh * kw,
        max(items.output, items.psum) * oc * oh * ow,
    )
    level = accelerator.memory
    if level.shared_bytes:
        fits = sizes[0] + sizes[1] + sizes[2] <= level.shared_bytes
    else:
        fits = (sizes[0] <= level.input_bytes) & (sizes[1] <= level.weight_bytes) & (sizes[2] <= level.output_bytes)
    of_input = layer.input_elements * items.input
    of_weight = layer.weight_elements * items.weight
    of_output = layer.output_elements * items.output
    of_psum = layer.output_elements * items.psum * 2 * (n_kw * n_kh * n_ic - 1)
    reload_input, reload_weight = n_kw * n_kh * n_oc, n_ow * n_oh
    flows = (
        of_input + of_weight * reload_weight + of_output + of_psum,
        of_input * reload_input + of_weight + of_output + of_psum,
        of_input * reload_input + of_weight * reload_weight + of_output,
    )
    least = min(float(np.where(fits, flow, np.inf).min()) for flow in flows)
    return None if least == np.inf else int(least)


@settings(max_examples=examples(250, 10))
@given(layers(20_000), accelerators())
def test_least_traffic_of_every_integer_tile(layer: ConvLayer, accelerator: Accelerator) -> None:
    reference = least_by_equations(layer, accelerator)
    options = ExactOptions(grid="full")
    if reference is None:
        with pytest.raises(NoTiling):
            exact.search(layer, accelerator, options=options)
    else:
        planned = exact.search(layer, accelerator, METRICS["traffic"], options)
        assert planned.reached.traffic.total_bytes == reference


# -- edges ----------------------------------------------------------------------------------------------------------

LAYER = ConvLayer("conv", 64, 48, 20, 20, 3, 3, 20, 20, pads=(1, 1, 1, 1))


def with_memory(of_input: int, of_weight: int, of_output: int, gb_per_s: float = 1.0, shared: int = 0) -> Accelerator:
    level = MemoryLevel("on-chip", gb_per_s, of_input, of_weight, of_output, shared)
    return Accelerator("edge", 1.0, (level,), (16, 16), (("IC",), ("OC",)))


@pytest.mark.parametrize("model", ["paper", "halo"])
def test_a_layer_that_fits_is_one_tile(model: Literal["paper", "halo"]) -> None:
    planned = exact.search(LAYER, with_memory(1 << 20, 1 << 20, 1 << 20), options=ExactOptions(model=model))
    assert planned.tiling.tile == Tile(64, 48, 20, 20, 3, 3)
    assert planned.reached.traffic.total_bytes == 4 * (48 * 400 + 64 * 48 * 9 + 64 * 400)


@pytest.mark.parametrize(
    "options", [ExactOptions(), ExactOptions(grid="full"), ExactOptions(model="halo", double_buffer=True)]
)
@pytest.mark.parametrize("shared", [False, True])
def test_the_smallest_memory_that_is_named_does(options: ExactOptions, shared: bool) -> None:
    with pytest.raises(NoTiling) as error:
        exact.search(LAYER, with_memory(1, 1, 1, shared=int(shared)), options=options)
    text = str(error.value)
    assert "layer conv" in text
    assert ("twice" in text) == options.double_buffer
    numbers = [int(word) for word in text.partition("needs ")[2].replace(",", "").split() if word.isdigit()]
    assert len(numbers) == (1 if shared else 3)
    memory = with_memory(0, 0, 0, shared=numbers[0]) if shared else with_memory(*numbers)
    assert exact.search(LAYER, memory, options=options).reached.traffic.total_bytes > 0
    for place in range(len(numbers)):
        short = [n - (i == place) for i, n in enumerate(numbers)]
        with pytest.raises(NoTiling):
            exact.search(
                LAYER, with_memory(0, 0, 0, shared=short[0]) if shared else with_memory(*short), options=options
            )


def test_two_buffers_take_twice_the_memory() -> None:
    once = exact.search(LAYER, with_memory(20_000, 10_000, 20_000))
    twice = exact.search(LAYER, with_memory(40_000, 20_000, 40_000), options=ExactOptions(double_buffer=True))
    assert twice == once


def test_taking_turns_takes_the_sum_of_both_times() -> None:
    accelerator = with_memory(20_000, 10_000, 20_000)
    reached = exact.search(LAYER, accelerator, METRICS["latency"], ExactOptions(overlap=False)).reached
    transfers = reached.traffic.total_bytes / 1e9
    assert reached.seconds == pytest.approx(transfers + LAYER.macs / 256e9, rel=1e-12)


def test_the_roof_of_a_tile_changes_the_choice() -> None:
    """Four output channels at a time move the least, in nine steps of 16; 16, 16 and 2 take three."""
    layer = ConvLayer("odd", 34, 64, 4, 4, 1, 1, 4, 4)
    accelerator = with_memory(1 << 20, 17 * 16 * 4, 17 * 16 * 4, gb_per_s=1000.0)
    options = ExactOptions(grid="full", tile_roof=True)
    least = exact.search(layer, accelerator, METRICS["traffic"], options)
    fastest = exact.search(layer, accelerator, METRICS["latency"], options)
    assert least.tiling.tile == Tile(4, 64, 4, 4, 1, 1)
    assert least.reached.compute_gmac_per_s == pytest.approx(256 * 34 / (9 * 16))
    assert fastest.reached.gmac_per_s == pytest.approx(256 * 34 / (3 * 16))
    assert fastest.reached.traffic.total_bytes > least.reached.traffic.total_bytes


def test_a_loop_that_vanishes_makes_its_operand_stationary() -> None:
    """With all of OC in a tile nothing reloads the input, whichever operand the dataflow names (paper, 5.3)."""
    layer = ConvLayer("thin", 16, 512, 32, 32, 1, 1, 32, 32)
    planned = exact.search(layer, with_memory(64 << 10, 2 << 10, 64 << 10), options=ExactOptions(model="halo"))
    moved = planned.reached.traffic
    assert moved.input_bytes == 4 * layer.input_elements
    assert planned.tiling.dataflow is Dataflow.OUTPUT
    assert moved.output_bytes == 4 * layer.output_elements


def test_the_same_every_time() -> None:
    first, second = (
        exact.search(LAYER, with_memory(9_000, 9_000, 9_000), options=ExactOptions(grid="full")) for _ in range(2)
    )
    assert first == second


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"double_buffer": True, "overlap": False}, "overlap=False"),
        ({"model": "halo", "halo_fits": False}, "halo_fits=False"),
        ({"model": "other"}, "model 'other'"),
        ({"grid": "fine"}, "grid 'fine'"),
    ],
)
def test_options_that_contradict(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(MavcgError, match=said):
        ExactOptions(**wrong)  # type: ignore[arg-type]


def test_a_layer_too_large_to_count() -> None:
    with pytest.raises(MavcgError, match="layer huge: .* multiply-accumulates"):
        exact.search(ConvLayer("huge", 1 << 20, 1 << 20, 1 << 20, 1, 1, 1, 1 << 20, 1), setup("A"))
