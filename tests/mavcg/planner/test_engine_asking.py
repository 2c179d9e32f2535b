"""What asking early for the next chunk's weights costs and brings, by the model."""

from dataclasses import replace

import numpy as np
import pytest

from mavcg.graph import TensorType
from mavcg.graph_builder import GraphBuilder
from mavcg.kernel import Machine, dense_view
from mavcg.kernels.conv_spec import Conv2d
from mavcg.kernels.tiling import Widths
from mavcg.planner.engine_asking import ASK_CYCLES, BEGIN_CYCLES, LOST_LINE_CYCLES, Pass, cycles, shares
from mavcg.tile_plan import MacroTile

X86 = Machine("x86", "x86_64", "znver3", vector_bytes=32, vector_registers=16)
BIG = Machine("big", "aarch64", "cortex-a76", ("+neon",))
ASKING, SILENT = MacroTile(prefetch_bytes=4096), MacroTile()
FREE = 24576.0
# 64 terms by 32 channels: a turn of eight terms is 16 lines; eight tiles of a row share them, two lines each.
NEAR = Pass(Widths(3, 8, 0), False, 1, 8192, 80_000, 768, 64)


def spec(lanes: int = 16) -> Conv2d:
    """A convolution with packed weights."""
    b = GraphBuilder("g")
    x = b.input("x", TensorType("f32", (1, 4, 24, 64)))
    graph = b.finish([b.add("conv2d", [x, b.constant(np.ones((256, 1, 1, 64), np.float32))], pads=(0, 0, 0, 0))])
    views = [dense_view(graph.types[name]) for name in (graph.nodes[-1].inputs[0], graph.nodes[-1].output)]
    return Conv2d(
        views[0], views[1], None, (1, 1), (1, 1), (1, 1), 1, lanes, bias=False, packed=True, act="", act_args=()
    )  # fmt: skip


def test_a_chunk_begins_with_a_wait_or_with_what_was_asked_for() -> None:
    assert cycles(spec(), X86, SILENT, NEAR, FREE) == BEGIN_CYCLES
    assert cycles(spec(), X86, ASKING, NEAR, FREE) == pytest.approx(8 * 8 * 2 * ASK_CYCLES)


def test_each_tile_asks_at_least_once_a_turn() -> None:
    """Of 160 tiles each has a tenth of a line to ask for: so the same line is asked for again."""
    assert cycles(spec(), X86, ASKING, replace(NEAR, rows=20), FREE) == pytest.approx(160 * 8 * ASK_CYCLES)


@pytest.mark.parametrize("returns", [0, 20_000])
def test_weights_that_are_still_in_level_1_when_their_turn_comes_need_no_wait(returns: int) -> None:
    assert cycles(spec(), X86, SILENT, replace(NEAR, returns_bytes=returns), FREE) == 0


def test_a_task_that_reads_its_weights_once_waits() -> None:
    assert cycles(spec(), X86, SILENT, replace(NEAR, returns_bytes=None), FREE) == BEGIN_CYCLES


def test_where_a_chunk_does_not_stay_in_level_1_asking_takes_room_and_no_wait_is_saved() -> None:
    far = replace(NEAR, chunk_bytes=65536, terms=512)

    assert cycles(spec(), X86, SILENT, far, FREE) == 0
    assert cycles(spec(), X86, ASKING, far, FREE) == pytest.approx(8 * 64 * 2 * ASK_CYCLES + 1024 * LOST_LINE_CYCLES)


def test_only_many_tiles_of_an_x86_core_share() -> None:
    assert shares(spec(), X86, NEAR)
    assert not shares(spec(), X86, replace(NEAR, widths=Widths(3, 3, 0)))
    assert not shares(spec(), BIG, NEAR)
