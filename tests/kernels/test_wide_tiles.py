"""Tiles of AVX-512 vectors: nothing is spilled, and what half a vector holds is computed with half a vector.

With AVX2 products of weights in blocks spill no sums.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mavcg.choose.lowering.kernel_code import kernel_flags, kernel_module
from mavcg.graph.layout import dense_strides
from mavcg.kernels.block_weights.packing import BlockFormat
from mavcg.kernels.block_weights.spec import BlockProduct, Lines
from mavcg.kernels.builder.quantize import Int8Epilogue
from mavcg.kernels.conv.spec import NARROW_ROW, Conv2d
from mavcg.kernels.conv.tiling import FEW_PIXELS, few_pixels_tiling, one_tile_runs, register_tiling, uncrowded_pixels
from mavcg.kernels.gemm.loop_shape import lane_counts
from mavcg.kernels.int8.specs import QConv2d
from mavcg.profiles.load import load_core
from mavcg.runtime.machines import machines_for
from mavcg.specs.kernel import KernelSpec, Machine, View
from mavcg.specs.row_kernel import transpose_image
from mavcg.specs.tile_plan import MacroTile
from mavcg.toolchain.codegen import CodegenJob, compile_module
from mavcg.toolchain.target import parse_target

TARGET = parse_target("x86_64-linux-gnu.2.17")
MACHINES = machines_for(tuple(map(load_core, ("znver4", "znver3", "sapphirerapids"))), TARGET)


def first_layer() -> Conv2d:
    """A 3x3 filter with stride 2 over 3 channels: sums of three short runs."""
    x, out = (1, 5, 225, 3), (1, 2, 112, 32)
    return Conv2d(
        View("f32", x, dense_strides(x)),
        View("f32", out, dense_strides(out)),
        None,
        (3, 3),
        (2, 2),
        (1, 1),
        1,
        16,
        True,
        True,
        "relu",
        (),
    )


@pytest.mark.parametrize(
    ("machine", "used", "counts"),
    [
        ("znver4", 16, (16, 16)),
        ("znver4", 9, (16, 16)),
        ("znver4", 8, (16, 8)),
        ("znver4", 1, (16, 8)),
        ("generic", 4, (8, 8)),
    ],
)
def test_lanes_of_the_last_vector(machine: str, used: int, counts: tuple[int, ...]) -> None:
    assert lane_counts(MACHINES[machine], 2, used) == counts


def assembly_of(spec: KernelSpec, machine: Machine, flags: tuple[str, ...], path: Path) -> str:
    text = kernel_module([spec], machine, machine.name, TARGET)
    compile_module(CodegenJob(text, TARGET, "test", opt_level="2", emit="asm", flags=flags), path)
    return path.read_text()


def test_first_layers_do_not_spill(tmp_path: Path) -> None:
    machine = MACHINES["znver4"]
    assembly = assembly_of(first_layer(), machine, kernel_flags(machine), tmp_path / "kernel.s")
    assert "vfmadd" in assembly
    assert not re.search(r"%zmm\d+, .*\(%rsp\)", assembly)


@pytest.mark.parametrize(("kernel", "stride", "channels"), [(7, 2, 3), (3, 1, 12)])
def test_eight_bit_pixels_that_share_inputs_do_not_spill(
    kernel: int, stride: int, channels: int, tmp_path: Path
) -> None:
    """A group of a pixel's inputs is a later group of the pixel before it, or of the one before that."""
    width, machine = 13 * stride + kernel, MACHINES["znver4"]
    x, out = (1, kernel, width, channels), (1, 1, 14, 32)
    spec = QConv2d(
        View("u8", x, dense_strides(x)),
        View("u8", out, dense_strides(out)),
        (kernel, kernel),
        (stride, stride),
        (1, 1),
        1,
        16,
        Int8Epilogue(0, 0, 255, "u8"),
        True,
    )
    assembly = assembly_of(spec, machine, kernel_flags(machine), tmp_path / "kernel.s")
    assert "vpdpbusd" in assembly
    assert not re.search(r"%zmm\d+, .*\(%rsp\)", assembly)


def test_products_with_avx2_spill_no_sums(tmp_path: Path) -> None:
    """The loop over tiles of 4 lines by 16 channels has 64 products in a block of 32 numbers, and one reload at most,
    of scales."""
    machine, form = MACHINES["znver3"], BlockFormat(4, 32, 16, "f16", False)
    lines, out = Lines(64, 768, 0, 1), Lines(64, 160, 160, 1)
    spec = BlockProduct(lines, out, form, quantize=True, bias=False, by_blocks=True)
    assembly = assembly_of(spec, machine, kernel_flags(machine, [spec]), tmp_path / "kernel.s")
    (loop,) = re.findall(r"^\.LBB0_4:(.*?)\tj\w+\t\.LBB0_4", assembly, re.MULTILINE | re.DOTALL)
    assert loop.count("\tvpmaddubsw\t") == 64
    assert len(re.findall(r"^\t[a-z]", loop, re.MULTILINE)) < 250
    assert loop.count("(%rsp)") <= 1


def pointwise(channels: int, out_channels: int) -> Conv2d:
    """A 1x1 convolution at 7x7 pixels."""
    x, out = (1, 1, 49, channels), (1, 1, 49, out_channels)
    return Conv2d(
        View("f32", x, dense_strides(x)),
        View("f32", out, dense_strides(out)),
        None,
        (1, 1),
        (1, 1),
        (1, 1),
        1,
        16,
        True,
        True,
        "relu",
        (),
    )


@pytest.mark.parametrize(("channels", "most"), [(1024, 6), (2048, 6), (512, 12), (256, 24), (960, 96)])
def test_inputs_of_a_tile_stay_in_the_sets_of_level_1(channels: int, most: int) -> None:
    """Pixels of 4 KB are in one set of eight lines, of 2 KB in two."""
    assert uncrowded_pixels(pointwise(channels, 32), MACHINES["znver4"]) == most
    tiling, _ = register_tiling(pointwise(channels, 16), MACHINES["znver4"], MacroTile(), 16)
    assert tiling.widths.mr <= most


@pytest.mark.parametrize(("channels", "out_channels"), [(1024, 1024), (512, 1024), (320, 1280)])
def test_wide_tiles_read_least(channels: int, out_channels: int) -> None:
    """4 vectors by 6 pixels: 10 loads for 24 multiply-adds."""
    tiling, _ = register_tiling(pointwise(channels, out_channels), MACHINES["znver4"], MacroTile(), out_channels)
    assert (tiling.vectors, tiling.widths.mr) == (4, 6)


def test_tiles_of_two_pipes_wait_neither_for_sums_nor_for_loads() -> None:
    """Each pipe starts a multiply-add a cycle, whose sum is ready after four: eight sums at least, as many as loads.

    For 3x3 at 14x14 with stride 2 a core of one pipe takes 7 pixels by one vector.
    """
    x, out = (1, 29, 29, 256), (1, 14, 14, 256)
    view, to = View("f32", x, dense_strides(x)), View("f32", out, dense_strides(out))
    spec = Conv2d(view, to, None, (3, 3), (2, 2), (1, 1), 1, 16, True, True, "relu", ())
    fewest_sums, most_loads = 8, 1.0
    for core, waits in (("znver4", True), ("sapphirerapids", False)):
        tiling, _ = register_tiling(spec, MACHINES[core], MacroTile(), 256)
        pixels, vectors = tiling.widths.mr, tiling.vectors
        loads = (pixels + vectors) / (pixels * vectors)
        assert (pixels * vectors < fewest_sums or loads > most_loads) == waits, core


@pytest.mark.parametrize(("channels", "vectors"), [(16, 6), (32, 6), (96, 3)])
def test_all_channels_of_a_pixel_of_a_short_sum_are_one_chunk(channels: int, vectors: int) -> None:
    """96 channels are six vectors."""
    spec = pointwise(channels, 96)
    assert register_tiling(spec, MACHINES["sapphirerapids"], MacroTile(), 96)[0].vectors == vectors
    assert register_tiling(spec, MACHINES["znver4"], MacroTile(), 96)[0].vectors <= 4


@pytest.mark.parametrize(("core", "wider"), [("znver3", True), ("znver4", False)])
def test_a_few_pixels_of_a_run_have_tiles_of_more_channels(core: str, wider: bool) -> None:
    """On AVX2 two pixels by two vectors are four sums, where eight multiply-adds are begun before the first one ends.

    With AVX-512 they are eight sums, where four are begun.
    """
    spec: Any = replace(transpose_image(pointwise(384, 1536)), free_rows=True)
    machine, macro = MACHINES[core], MacroTile()

    few = few_pixels_tiling(spec, machine, macro, 1536)
    tiling, _ = register_tiling(spec, machine, macro, 1536)

    assert few is not None and few.widths.mr == FEW_PIXELS and (few.vectors > tiling.vectors) == wider
    assert few_pixels_tiling(replace(spec, free_rows=False), machine, macro, 1536) is None


def test_runs_that_one_tile_of_fewer_channels_computes_have_one() -> None:
    """Six pixels by four vectors fit the registers of AVX-512, eight by three, and thirteen by two."""
    machine, macro = MACHINES["sapphirerapids"], MacroTile()
    free: Any = replace(transpose_image(pointwise(256, 1024)), free_rows=True)

    def runs(spec: Conv2d) -> dict[int, int]:
        tilings = dict(one_tile_runs(spec, machine, macro, spec.out_channels, 4))
        assert all((t.widths.mr, t.widths.count, t.widths.count_less) == (n, 1, 0) for n, t in tilings.items())
        return {pixels: tiling.vectors for pixels, tiling in tilings.items()}

    assert runs(free) == {7: 3, 8: 3} | dict.fromkeys(range(9, 14), 2)
    # Pixels of 4 KB map to the same sets of level 1, and few weights stay in level 2 beside other data.
    assert not runs(replace(transpose_image(pointwise(1024, 256)), free_rows=True))
    assert not runs(replace(transpose_image(pointwise(128, 256)), free_rows=True))
    assert not runs(replace(free, free_rows=False))


@pytest.mark.parametrize(("columns", "pixels"), [(2, [8, 10, 12]), (3, [9, 12]), (4, [8, 12]), (5, [])])
def test_narrow_rows_of_a_run_are_tiles_together(columns: int, pixels: list[int]) -> None:
    """A tile has whole rows if a run sets only their number; if it sets their length, a tile has ten pixels at most."""
    machine, macro = MACHINES["sapphirerapids"], MacroTile()
    shapes = (1, 18, columns + 2, 256), (1, 16, columns, 128)
    x, out = (View("f32", shape, dense_strides(shape)) for shape in shapes)
    spec = Conv2d(x, out, None, (3, 3), (1, 1), (1, 1), 1, 16, True, True, "relu", (), free_rows=True)
    tiling, _ = register_tiling(spec, machine, macro, 128)

    assert spec.short_rows == (columns <= NARROW_ROW) and not replace(spec, free_rows=False).short_rows
    assert not spec.short_rows or tiling.widths.mr > columns
    assert [n for n, _ in one_tile_runs(spec, machine, macro, 128, 4)] == pixels
    of_run = replace(spec, words=(("out.shape.2", 0),))
    assert [n for n, _ in one_tile_runs(of_run, machine, macro, 128, 4)] == [7, 8, 9, 10]
