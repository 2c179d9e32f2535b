"""Macro-tiles for the engine: what the model finds for known caches, and that it keeps its own rules."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from llvmlite import ir

from mavcg.choose.lowering.lower import lower_graph
from mavcg.choose.tiles.candidates import LEAST_TASKS, candidates, plain_tile, task_sizes
from mavcg.choose.tiles.tiles import best_macro, plan_tiles
from mavcg.cost.board_model import cores_of
from mavcg.cost.cycles import LEVEL_1, LEVEL_2, Cycles
from mavcg.cost.kernel_cost import cost
from mavcg.cost.kernel_work import KernelWork, registers, work_of
from mavcg.cost.level_traffic import l1_budget
from mavcg.errors import MavcgError
from mavcg.graph import TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.hardware.core_model import CoreModel
from mavcg.kernels.builder.emit import kernel_name
from mavcg.kernels.conv.depthwise import Depthwise
from mavcg.kernels.conv.spec import Conv2d
from mavcg.kernels.conv.tiling import POINTER_PIXELS, register_tiling
from mavcg.kernels.registry import emit
from mavcg.profiles.cost_fits import fit_of
from mavcg.profiles.load import load_board
from mavcg.specs.kernel import KernelSpec, Machine, Packing, View, dense_view
from mavcg.specs.tile_plan import MacroTile, worthwhile_call_rows
from mavcg.toolchain.target import parse_target
from tests.mavcg.choose.tiles.convs import X86, ZEN3, conv, core_with, known

LITTLE = Machine("little", "aarch64", "cortex-a55", ("+neon",), in_order=True)
BIG = Machine("big", "aarch64", "exynos-m4", ("+neon",))


A55 = core_with(LITTLE, 1.9, 1, 32, 128, (8, 2))
M4 = core_with(BIG, 2.7, 3, 64, 512, (16, 4))
ARM_CORES = {"little": A55, "big": M4}


def computing(cycles: Cycles) -> float:
    """The cycles of a core's own instructions and of chunks' starts, without waits for transfers."""
    return sum(count for term, count in cycles.terms.items() if not term.startswith("exposed"))


def qconv(size: int, in_ch: int, out_ch: int) -> KernelSpec:
    """The same of 8-bit numbers, 3x3."""
    b = GraphBuilder("g")
    x = b.input("x", TensorType("u8", (1, size + 2, size + 2, in_ch)))
    constants = [
        b.constant(np.ones((out_ch, 3, 3, in_ch), np.int8)),
        b.constant(np.zeros(out_ch, np.int32)),
        b.constant(np.ones(out_ch, np.float32)),
    ]
    out = b.add(
        "qconv2d",
        [x, *constants],
        pads=(0, 0, 0, 0),
        x_zero=0,
        out_zero=0,
        lo=0,
        hi=255,
        to="u8",
    )
    (spec,) = lower_graph(b.finish([out]), Packing(8)).specs
    return spec


ARM_SPECS = (conv(14, 64, 96, 3, 8), conv(28, 48, 24, 1, 8), conv(7, 512, 512, 3, 8), conv(9, 6, 8, 3, 8, groups=2))


def test_every_version_of_every_kernel_is_planned_with_one_packing_and_one_size_of_task() -> None:
    specs = (*ARM_SPECS, qconv(14, 64, 64))
    plan = plan_tiles(specs, ARM_CORES)

    assert {(kernel, label) for kernel, label, _ in plan} == {(kernel_name(s), m) for s in specs for m in ARM_CORES}
    for spec in specs:
        tiles = [plan.of(kernel_name(spec), label) for label in ARM_CORES]
        assert len({tile.call_rows for tile in tiles if tile}) == 1
        assert {tile.panel_channels for tile in tiles if tile} == {8}
        rows = plan.call_rows(kernel_name(spec))
        assert rows is not None and worthwhile_call_rows(spec) <= rows <= spec.rows
    assert str(plan) == str(plan_tiles(specs, ARM_CORES))


def test_what_is_no_product_has_no_macro_tile() -> None:
    b = GraphBuilder("g")
    graph = b.finish([b.add("tanh", [b.input("x", TensorType("f32", (4, 5)))])])

    assert not list(plan_tiles(lower_graph(graph, Packing(8)).specs, ARM_CORES))


@pytest.mark.parametrize("spec", ARM_SPECS[:3])
@pytest.mark.parametrize("label", list(ARM_CORES))
def test_the_cheapest_of_all_candidates_is_taken_or_the_plain_one(spec: KernelSpec, label: str) -> None:
    work, core = known(spec), ARM_CORES[label]
    plain = plain_tile(work, task_sizes(work, [core.machine])[0])
    by_cost = {m: cost(work.spec, m, core).total for m in (plain, *candidates(work, core, plain))}
    chosen = best_macro(work, core, plain.call_rows)

    assert by_cost[chosen] == min(by_cost.values()) or (
        chosen == plain and min(by_cost.values()) >= core.fit.macro_tile.min_gain * by_cost[plain]
    )


def test_long_sums_are_blocked_where_level_2_is_slow_so_that_a_block_s_weights_stay_in_level_1() -> None:
    """3x3x512: a panel of 147 KB, which an in-order core would fetch from level 2 for every few pixels."""
    work = known(conv(28, 512, 128, 3, 8))
    nearest, *behind = A55.levels
    slow = replace(A55, levels=(replace(nearest, bandwidth_gb_per_s=nearest.bandwidth_gb_per_s / 3), *behind))
    call_rows = task_sizes(work, [LITTLE])[0]
    macro = best_macro(work, slow, call_rows)
    assert macro.kc is not None
    panel = registers(work, LITTLE, macro, work.layer.oc).channels * macro.kc * 4

    assert 0 < macro.kc < work.terms and work.terms % macro.kc == 0
    assert panel <= l1_budget(slow)
    whole = replace(macro, kc=None)
    assert cost(work.spec, macro, slow).level_bytes[LEVEL_1] < cost(work.spec, whole, slow).level_bytes[LEVEL_1]
    # By the simulated A55's share of fills that shows, reading and writing the sums again costs more than it saves.
    assert best_macro(work, A55, call_rows).kc is None


def test_a_fast_level_2_needs_no_blocks_of_terms_but_weights_from_memory_are_prefetched() -> None:
    work = known(conv(7, 512, 512, 3, 16))
    macro = best_macro(work, ZEN3, task_sizes(work, [X86])[0])

    assert macro.kc is None and macro.prefetch_distance_bytes is not None


def test_the_one_stream_of_weights_of_a_pixel_is_not_prefetched_on_arm() -> None:
    """A prefetch takes a fill of level 1 for as long as memory takes; x86 cores have more of them."""
    for core, prefetched in ((A55, False), (M4, False), (ZEN3, True)):
        pixel, image = (known(conv(size, 1024, 1024, 1, 16)) for size in (1, 7))
        distances = [
            {macro.prefetch_distance_bytes for macro in candidates(work, core, plain_tile(work, 4))}
            for work in (pixel, image)
        ]
        assert [len(of_work) > 1 for of_work in distances] == [prefetched, True]


@pytest.mark.parametrize(("size", "in_ch", "prefetched"), [(3, 64, False), (3, 160, True), (7, 64, True)])
def test_weights_are_not_prefetched_beyond_half_a_panel_by_tiles_that_do_not_share(
    size: int, in_ch: int, prefetched: bool
) -> None:
    work = known(conv(size, in_ch, 960, 1, 16))
    macros = candidates(work, ZEN3, plain_tile(work, task_sizes(work, [X86])[0]))

    assert any(macro.prefetch_distance_bytes for macro in macros) == prefetched


def pixels_of_runs(channels: int) -> Conv2d:
    """A product of so many channels with as many, for runs of 1 to 256 pixels."""
    column = View("f32", (1, 256, 1, channels), (0, channels, 0, 1))
    one = (1, 1)
    return Conv2d(column, column, None, one, one, one, 1, 16, False, True, "", (), free_rows=True)


@pytest.mark.parametrize(("channels", "prefetched"), [(64, False), (256, True), (512, True)])
def test_tiles_of_runs_of_any_length_share_prefetches_of_many_weights(channels: int, prefetched: bool) -> None:
    """A sixth of the next chunk's 512 bytes in 8 terms of a tile, where each tile prefetched all of its own."""
    spec = pixels_of_runs(channels)
    ((_, _, macro),) = plan_tiles([spec], {"zen3": ZEN3})
    module = ir.Module("pixels")
    emit(module, spec, X86, macro)
    bodies = [text for text in str(module).split("br ") if "@llvm.prefetch" in text or '@"llvm.prefetch' in text]

    assert (macro.prefetch_distance_bytes is not None) == bool(bodies) == prefetched
    assert max((text.count("llvm.prefetch") for text in bodies), default=0) <= 3


def test_weights_that_rows_pass_over_are_prefetched_where_they_do_not_stay_in_level_1() -> None:
    """1x1 at 13x13: 64 to 256 channels are 64 KB in chunks of 8; 16 to 64 stay; of 512 to 64 no chunk does."""
    plans = [best_macro(known(conv(13, a, b, 1, 16)), ZEN3, 1) for a, b in ((64, 256), (16, 64), (512, 64))]

    assert [macro.prefetch_distance_bytes is not None for macro in plans] == [True, False, False]


def test_weights_leave_level_2_where_a_residual_takes_their_room() -> None:
    """192 KB of weights in the 384 KB that count, beside a row's inputs and outputs of 112 KB; its residual has 84."""
    bare, added = (known(conv(56, 128, 384, 1, 16, residual=residual)) for residual in (False, True))
    bytes_of = [cost(work.spec, plain_tile(work, 1), ZEN3).level_bytes[LEVEL_2] for work in (bare, added)]
    weights, residual = 128 * 384 * 4, 56 * 56 * 384 * 4

    assert bytes_of[0] < 2 * weights + residual + 56 * 56 * 128 * 4
    assert bytes_of[1] - bytes_of[0] > residual + 10 * weights


def test_a_product_with_one_row_is_bound_by_memory_and_left_plain() -> None:
    work = known(conv(1, 2048, 1000, 1, 16))
    call_rows = task_sizes(work, [X86])[0]
    macro = best_macro(work, ZEN3, call_rows)
    total_cost = cost(work.spec, macro, ZEN3)

    assert macro == plain_tile(work, call_rows)
    assert total_cost.total == pytest.approx(
        total_cost.level_bytes[LEVEL_2] / 8, rel=0.05
    ) and total_cost.total > 2 * computing(total_cost)


def by_channels(size: int, in_ch: int, out_ch: int, kernel: int = 1) -> KernelWork:
    """The work of a layer with more weights than images, which is cut along its output channels."""
    work = known(conv(size, in_ch, out_ch, kernel, 16))
    assert work.by_channels
    return work


@pytest.mark.parametrize(
    ("size", "in_ch", "out_ch", "kernel"), [(14, 256, 256, 3), (14, 1024, 256, 1), (7, 512, 2048, 1)]
)
def test_weights_from_memory_that_are_passed_over_once_are_prefetched(
    size: int, in_ch: int, out_ch: int, kernel: int
) -> None:
    """They show in full unless they are, whether a chunk of them stays in level 1 or not."""
    work = by_channels(size, in_ch, out_ch, kernel)
    call_rows = task_sizes(work, [X86])[0]
    plain = plain_tile(work, call_rows)
    prefetching = replace(plain, prefetch_distance_bytes=4096)
    far_cycles = work.layer.weight_elements * 4 / 8
    saved = cost(work.spec, plain, ZEN3).total - cost(work.spec, prefetching, ZEN3).total

    assert best_macro(work, ZEN3, call_rows).prefetch_distance_bytes
    assert 0.4 * far_cycles < saved <= 0.75 * far_cycles  # 0.75, less the prefetches


def test_register_tiles_are_a_panel_wide_where_weights_are_passed_over_once() -> None:
    """Of 3x3, 512 channels at 14x14, 32 channels' weights pass through level 1 for 3 pixels, 16 channels' for 5."""
    work = by_channels(14, 512, 512, 3)
    call_rows = task_sizes(work, [X86])[0]
    wide = replace(plain_tile(work, call_rows), prefetch_distance_bytes=4096)
    macro = best_macro(work, ZEN3, call_rows)

    assert registers(work, X86, wide, 32).channels == 32 and registers(work, X86, macro, 32).channels == 16
    assert macro == replace(wide, nr=16)
    assert cost(work.spec, macro, ZEN3).level_bytes[LEVEL_1] < 0.7 * cost(work.spec, wide, ZEN3).level_bytes[LEVEL_1]


def test_register_tiles_stay_as_chosen_where_rows_or_residuals_decide() -> None:
    added = known(conv(7, 512, 2048, 1, 16, residual=True))
    rows = known(conv(28, 128, 128, 3, 16))
    assert added.by_channels and not rows.by_channels

    for work in (added, rows):
        assert not best_macro(work, ZEN3, task_sizes(work, [X86])[0]).nr
    assert not best_macro(by_channels(14, 512, 512, 3), M4, 2).nr


WIDE = Machine("wide", "x86_64", "sapphirerapids", vector_bytes=64, two_wide_pipes=True)


@pytest.mark.parametrize(
    ("l2_kib", "two_wide_pipes", "nr"),
    [
        (2048, True, None),  # two chunks of 48 channels and the input are 1.9 MB
        (1536, True, 32),  # of 32 channels 1.35 MB
        (1024, True, None),  # not even those
        (1536, False, None),  # one multiply-add a cycle, where that was not measured
    ],
)
def test_a_chunk_leaves_level_2_room_for_the_next_one(l2_kib: int, two_wide_pipes: bool, nr: int | None) -> None:
    """3x3, 512 to 512 channels at 7x7, whose chunks of 48 channels are 0.9 MB."""
    work = by_channels(7, 512, 512, 3)
    core = core_with(replace(WIDE, two_wide_pipes=two_wide_pipes), 3.0, 2, 48, l2_kib, (32, 8))
    call_rows = task_sizes(work, [core.machine])[0]
    chosen = registers(work, core.machine, MacroTile(), call_rows * 16).channels

    assert chosen == 48
    assert best_macro(work, core, call_rows) == replace(
        plain_tile(work, call_rows), nr=nr, prefetch_distance_bytes=4096
    )


def test_a_prefetch_that_a_chunk_evicts_gains_nothing() -> None:
    work = by_channels(7, 512, 512, 3)
    roomy, crowded = (core_with(WIDE, 3.0, 2, 48, size, (32, 8)) for size in (2048, 1536))
    plain = plain_tile(work, 3)
    prefetched = replace(plain, prefetch_distance_bytes=4096)

    assert cost(work.spec, prefetched, roomy).total < 0.9 * cost(work.spec, plain, roomy).total
    assert cost(work.spec, prefetched, crowded).total >= cost(work.spec, plain, crowded).total


def test_blocks_of_terms_cost_each_tile_a_wait_for_its_sums() -> None:
    """960 to 160 channels at 7x7 in five blocks: nine tiles of ten chunks go on four times."""
    work = by_channels(7, 960, 160)
    whole = replace(plain_tile(work, 1), prefetch_distance_bytes=4096)
    parts = replace(whole, kc=192)
    waits = computing(cost(work.spec, parts, ZEN3)) - computing(cost(work.spec, whole, ZEN3))

    fit = fit_of(X86).macro_tile
    assert waits > 4 * 10 * 9 * (fit.resume_cycles + fit.tile_cycles) - 10 * 960 * 16 * 4 / 64
    assert not best_macro(work, ZEN3, 1).kc


def test_8_bit_outputs_hold_no_partial_sums() -> None:
    work = known(qconv(14, 512, 64))

    for core in ARM_CORES.values():
        plain = plain_tile(work, 1)
        assert {m.kc for m in candidates(work, core, plain)} == {None}


@pytest.mark.parametrize("spec", ARM_SPECS)
def test_tasks_are_whole_chunks_and_leave_something_to_share_out(spec: KernelSpec) -> None:
    work = known(spec)
    sizes = task_sizes(work, [core.machine for core in ARM_CORES.values()])

    assert sizes[0] >= worthwhile_call_rows(spec) and list(sizes) == sorted(set(sizes))
    for rows in sizes[1:]:
        assert rows * LEAST_TASKS <= spec.rows
    if work.by_channels and sizes[0] < spec.rows:
        for core in ARM_CORES.values():
            assert sizes[0] * work.rules.panel % registers(work, core.machine, MacroTile(), work.layer.oc).channels == 0


@pytest.mark.parametrize("spec", ARM_SPECS)
def test_the_model_is_no_better_than_the_arithmetic_and_larger_caches_cost_nothing(spec: KernelSpec) -> None:
    work = known(spec)
    macro = plain_tile(work, task_sizes(work, [BIG])[0])
    total_cost = cost(work.spec, macro, M4)
    l1, l2 = M4.levels
    larger = replace(M4, levels=(l1, replace(l2, shared_bytes=8 * l2.shared_bytes)))

    assert computing(total_cost) >= work.layer.macs / (4 * 2)  # lanes, and the pipes that the register model counts
    assert total_cost.level_bytes[LEVEL_2] >= 4 * (work.layer.input_elements + work.layer.weight_elements)
    assert cost(work.spec, macro, larger).total <= total_cost.total


def test_boards_say_whose_caches_they_are_and_other_labels_get_typical_ones() -> None:
    board, target = load_board("exynos9820"), parse_target("aarch64-linux-gnu.2.17")
    core_of: Mapping[str, CoreModel] = cores_of(("generic", "exynos-m4", "cortex-a76"), target, board)

    assert core_of["exynos-m4"].levels[0].shared_bytes == 65536  # the board's file
    assert core_of["generic"].levels[0].shared_bytes == core_of["cortex-a76"].levels[0].shared_bytes == 32 << 10
    assert list(core_of) == ["generic", "exynos-m4", "cortex-a76"]


def test_macro_tiles_see_that_a_core_has_no_level_2() -> None:
    """The A55s of an exynos9820 have none, and the board says so; a plan with one is another plan."""
    board, target = load_board("exynos9820"), parse_target("aarch64-linux-gnu.2.17")
    phone = cores_of(("cortex-a55",), target, board)["cortex-a55"]
    assert [(level.name, level.shared_bytes) for level in phone.levels] == [("L1", 32768), ("L3", 4 << 20)]
    given = replace(board, clusters=(replace(board.clusters[0], l2_bytes=131072), *board.clusters[1:]))
    assert len(cores_of(("cortex-a55",), target, given)["cortex-a55"].levels) == 3


def test_of_x86_cores_the_design_says_the_caches_where_no_board_does() -> None:
    target = parse_target("x86_64-linux-gnu.2.17")
    core_of = cores_of(("generic", "znver3", "skylake-avx512", "sapphirerapids"), target)

    assert [level.shared_bytes >> 10 for level in core_of["znver3"].levels] == [32, 512, 8192]
    assert [level.shared_bytes >> 10 for level in core_of["skylake-avx512"].levels] == [32, 1024, 8192]
    assert [level.shared_bytes >> 10 for level in core_of["sapphirerapids"].levels] == [48, 2048, 8192]
    assert core_of["generic"].levels[1].shared_bytes <= 512 << 10


def test_a_residual_is_moved_once_and_changes_no_register_tile() -> None:
    """1x1, 64 to 256 channels: four vectors by three pixels, with something added or not."""
    plain, added = (known(conv(56, 64, 256, 1, 16, residual=residual)) for residual in (False, True))
    zen3 = cores_of(("znver3",), parse_target("x86_64-linux-gnu.2.17"))["znver3"]
    chosen = [registers(work, X86, best_macro(work, zen3, 1), 256) for work in (plain, added)]

    assert [(tiles.widths.mr, tiles.channels) for tiles in chosen] == [(3, 32), (3, 32)]
    macro = plain_tile(plain, 1)
    more = cost(added.spec, macro, zen3).level_bytes[LEVEL_2] - cost(plain.spec, macro, zen3).level_bytes[LEVEL_2]
    assert more == 4 * plain.layer.output_elements


def test_of_an_image_that_is_stepped_over_only_what_is_read_counts() -> None:
    """ResNet-50's 1x1 with stride 2 from 28x28x512 to 14x14x1024: 2 MB of weights, 0.4 of 1.6 MB of input."""
    types = TensorType("f32", (1, 28, 28, 512)), TensorType("f32", (1, 14, 14, 1024))
    spec = Conv2d(
        dense_view(types[0]), dense_view(types[1]), None, (1, 1), (2, 2), (1, 1), 1, 16, True, True, "none", ()
    )
    assert spec.by_channels and spec.rows == 1024 // 16
    assert known(spec).layer.input_elements == 14 * 14 * 512
    whole = replace(spec, kernel=(3, 3), out=dense_view(TensorType("f32", (1, 13, 13, 64))))
    assert not whole.by_channels


def test_a_kernel_has_the_cost_of_its_macro_tile_or_of_its_counted_work() -> None:
    spec = conv(14, 64, 64, 3, 16)
    work = work_of(spec)
    assert work is not None
    tiled, counted = cost(spec, plain_tile(work, 1), ZEN3), cost(spec, None, ZEN3)

    assert {"register-tiles", "tile-ends"} <= set(tiled.terms) and set(tiled.roofs) == {LEVEL_1, LEVEL_2}
    assert "product_implicit" in counted.terms and not counted.roofs
    assert (tiled + counted).total == pytest.approx(tiled.total + counted.total)


def test_a_kernel_without_such_a_cost_is_one_error() -> None:
    with pytest.raises(MavcgError, match="its work is not counted"):
        cost(qconv(14, 64, 64), None, ZEN3)
    image = View("f32", (1, 4, 4, 8), (128, 32, 8, 1))
    with pytest.raises(MavcgError, match="no macro-tiles"):
        cost(Depthwise(image, image, None, (1, 1), (1, 1), (1, 1), False, "", ()), MacroTile(), ZEN3)


def test_tiles_that_continue_in_rows_of_any_length_have_few_addresses() -> None:
    """They read many weights once a call of several rows, and prefetch the next ones; a vector beside is worth more
    than pixels whose addresses are on the stack."""
    spec = conv(16, 256, 128, 3, 16)
    assert isinstance(spec, Conv2d) and not spec.short_rows
    spec = replace(spec, free_rows=True, words=(("out.shape.2", 0),))
    assert spec.short_rows
    wide = Machine("wide", "x86_64", "skylake-avx512", vector_bytes=64, vector_registers=32)
    for machine, shape in ((wide, (POINTER_PIXELS, 2)), (X86, (3, 4))):
        core = core_with(machine, 3.0, 2, 32, 512, (32, 8))
        macro = plan_tiles([spec], {"core": core}).tiles[kernel_name(spec), "core"]
        assert macro.call_rows >= 8 and macro.prefetch_distance_bytes
        tiling, crossing = register_tiling(spec, machine, macro, 128)
        assert (tiling.widths.mr, tiling.vectors, crossing) == (*shape, False)
