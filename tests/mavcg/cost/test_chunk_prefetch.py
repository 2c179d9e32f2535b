"""Cost and gain of prefetching the next chunk's weights, by the model."""

from dataclasses import replace

import numpy as np
import pytest

from mavcg.cost.chunk_prefetch import ChunkPass, cycles, shares
from mavcg.graph import TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.hardware.cost_fit import ChunkPrefetchFit
from mavcg.kernels.conv.spec import Conv2d
from mavcg.kernels.gemm.register_tile import Widths
from mavcg.profiles.cost_fits import fit_of
from mavcg.specs.kernel import Machine, dense_view
from mavcg.specs.tile_plan import MacroTile

X86 = Machine("x86", "x86_64", "znver3", vector_bytes=32, vector_registers=16)
BIG = Machine("big", "aarch64", "cortex-a76", ("+neon",))
WITH_PREFETCH, WITHOUT = MacroTile(prefetch_distance_bytes=4096), MacroTile()
FREE = 24576.0
FIT = fit_of(X86).chunk_prefetch or ChunkPrefetchFit(0.0, 0.0, 0.0)
# 64 terms by 32 channels: an iteration of eight terms is 16 lines; eight tiles of a row share them, two lines each.
NEAR = ChunkPass(Widths(3, 8, 0), False, 1, 8192, 80_000, 768, 64)


def spec(lanes: int = 16) -> Conv2d:
    """A convolution with packed weights."""
    b = GraphBuilder("g")
    x = b.input("x", TensorType("f32", (1, 4, 24, 64)))
    graph = b.finish([b.add("conv2d", [x, b.constant(np.ones((256, 1, 1, 64), np.float32))], pads=(0, 0, 0, 0))])
    views = [dense_view(graph.types[name]) for name in (graph.nodes[-1].inputs[0], graph.nodes[-1].output)]
    return Conv2d(
        views[0], views[1], None, (1, 1), (1, 1), (1, 1), 1, lanes, bias=False, packed=True, act="", act_args=()
    )


def test_a_chunk_begins_with_a_wait_or_with_prefetched_lines() -> None:
    assert cycles(spec(), X86, WITHOUT, NEAR, FREE) == FIT.start_cycles
    assert cycles(spec(), X86, WITH_PREFETCH, NEAR, FREE) == pytest.approx(8 * 8 * 2 * FIT.prefetch_cycles)


def test_each_tile_prefetches_at_least_once_an_iteration() -> None:
    """Each of 160 tiles has a tenth of a line to prefetch: so the same line is prefetched again."""
    assert cycles(spec(), X86, WITH_PREFETCH, replace(NEAR, rows=20), FREE) == pytest.approx(
        160 * 8 * FIT.prefetch_cycles
    )


@pytest.mark.parametrize("returns", [0, 20_000])
def test_weights_that_are_still_in_level_1_at_their_next_use_need_no_wait(returns: int) -> None:
    assert cycles(spec(), X86, WITHOUT, replace(NEAR, returns_bytes=returns), FREE) == 0


def test_a_task_that_reads_its_weights_once_waits() -> None:
    assert cycles(spec(), X86, WITHOUT, replace(NEAR, returns_bytes=None), FREE) == FIT.start_cycles


def test_where_a_chunk_does_not_stay_in_level_1_prefetches_take_room_and_save_no_wait() -> None:
    far = replace(NEAR, chunk_bytes=65536, terms=512)

    assert cycles(spec(), X86, WITHOUT, far, FREE) == 0
    expected = 8 * 64 * 2 * FIT.prefetch_cycles + 1024 * FIT.lost_line_cycles
    assert cycles(spec(), X86, WITH_PREFETCH, far, FREE) == pytest.approx(expected)


def test_only_many_tiles_of_an_x86_core_share() -> None:
    assert shares(spec().tiling_rules, X86, NEAR)
    assert not shares(spec().tiling_rules, X86, replace(NEAR, widths=Widths(3, 3, 0)))
    assert not shares(spec().tiling_rules, BIG, NEAR)
