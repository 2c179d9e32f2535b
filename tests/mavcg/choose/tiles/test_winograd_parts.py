"""Winograd's chunks on unequal cores: small where a slow core would hold half of a layer, else as even as ever."""

import pytest

from mavcg.choose.tiles.parts import core_team
from mavcg.choose.tiles.tiles import plan_tiles
from mavcg.choose.tiles.winograd_parts import layer_ns, weights_read_ns, winograd_chunk
from mavcg.cost.board_model import cores_each, cores_of
from mavcg.graph import TensorType
from mavcg.hardware.core_model import CoreModel
from mavcg.kernels.builder.emit import kernel_name
from mavcg.kernels.primitives.winograd.family import tiles_between, winograd_spec
from mavcg.kernels.primitives.winograd.spec import Winograd
from mavcg.profiles.load import load_board, load_cores
from mavcg.runtime.machines import machines_for
from mavcg.specs.kernel import Machine, dense_view
from mavcg.specs.tile_plan import call_rows, worthwhile_chunk_rows
from mavcg.toolchain.target import parse_target


def layer(side: int, channels: int) -> Winograd:
    """A 3x3 convolution of an image of side x side with as many channels out as in, in tiles of 4x4."""
    x, out = (dense_view(TensorType("f32", (1, n, n, channels))) for n in (side + 2, side))
    return winograd_spec(tiles_between(x, out, 4, 3, True, 8), x, out, None, False, "relu", ())


def board_cores(name: str) -> tuple[dict[str, Machine], dict[str, CoreModel], dict[str, int]]:
    board, known = load_board(name), load_cores()
    target = parse_target(board.target)
    machines = machines_for([known[core] for core in board.cores if core in known], target)
    return dict(machines), cores_of(tuple(machines), target, board), cores_each(tuple(machines), board)


@pytest.mark.parametrize("board", ["snapdragon-845", "snapdragon-865"])
@pytest.mark.parametrize(("side", "channels"), [(56, 64), (28, 128), (28, 512)])
def test_all_cores_end_sooner_and_the_fastest_alone_no_later(board: str, side: int, channels: int) -> None:
    """Two of four cores of a kind that had two chunks had nothing to do, and a slow one might have held half."""
    _, clusters, counts = board_cores(board)
    spec, everyone = layer(side, channels), core_team(clusters, counts)
    even, _ = call_rows(spec)
    min_chunk = winograd_chunk(spec, clusters, counts)

    assert worthwhile_chunk_rows(spec) <= min_chunk < even
    assert layer_ns(spec, min_chunk, everyone) < 0.75 * layer_ns(spec, even, everyone)
    assert layer_ns(spec, min_chunk, everyone.fastest) <= 1.01 * layer_ns(spec, even, everyone.fastest)


def test_where_reading_the_weights_again_takes_longer_chunks_stay() -> None:
    """37 MB of weights for 49 tiles, from a memory that two cores use up: the two fastest would end later."""
    _, clusters, counts = board_cores("exynos9820")
    assert winograd_chunk(layer(28, 512), clusters, counts) == 0
    assert 0 < winograd_chunk(layer(56, 256), clusters, counts) < call_rows(layer(56, 256))[0]


def test_cores_of_one_type_and_layers_of_many_tiles_keep_the_even_chunks() -> None:
    _, clusters, counts = board_cores("snapdragon-845")
    fast = max(clusters, key=lambda label: clusters[label].peak_gmac_per_s)

    assert winograd_chunk(layer(28, 128), clusters, {fast: 4}) == 0
    assert winograd_chunk(layer(28, 128), clusters, {}) == 0
    assert winograd_chunk(layer(224, 64), clusters, counts) == 0
    assert winograd_chunk(layer(8, 8), clusters, counts) == 0  # 4 tiles: not worth as many chunks


def test_a_plan_has_one_minimum_chunk_for_all_versions() -> None:
    machines, clusters, counts = board_cores("snapdragon-845")
    spec = layer(28, 128)
    plan = plan_tiles([spec], clusters, counts)
    tiles = {label: plan.of(kernel_name(spec), label) for label in machines}

    assert len({str(tile) for tile in tiles.values()}) == 1
    macro = plan.any_of(kernel_name(spec))
    assert macro is not None and macro.min_chunk_rows == winograd_chunk(spec, clusters, counts)
    assert macro.call_rows == spec.rows  # a call gets a whole chunk, which reads the weights once
    assert not list(plan_tiles([spec], clusters))


def test_reading_over_and_over_is_from_the_nearest_level_that_holds_it() -> None:
    core = board_cores("snapdragon-845")[1]["cortex-a75-r0"]
    l1, l2, l3 = core.levels

    assert weights_read_ns(l1.shared_bytes, core) == 0
    assert weights_read_ns(l1.shared_bytes + 1, core) == (l1.shared_bytes + 1) / l1.bandwidth_gb_per_s
    assert weights_read_ns(10 * l3.shared_bytes, core) == 10 * l3.shared_bytes / l3.bandwidth_gb_per_s
    assert l1.bandwidth_gb_per_s > l2.bandwidth_gb_per_s > l3.bandwidth_gb_per_s
