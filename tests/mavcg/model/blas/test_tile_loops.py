"""Loops of a BLAS library's largest tiles: near the peak of an in-order core by its model, without spills on x86."""

import re
from pathlib import Path

import pytest

from mavcg.assembly.asm_input import read_asm_input
from mavcg.assembly.loop_estimates import estimate_function
from mavcg.assembly.tuning_options import FAST
from mavcg.choose.lowering.kernel_code import KERNEL_FLAGS, CodeSettings, compile_kernels
from mavcg.choose.tiles.blas_blocks import plan_blas_blocks
from mavcg.choose.tiles.core_blocking import model_of_core
from mavcg.hardware.core import Core
from mavcg.kernels.blas.product_tile import PACKED, ProductTile
from mavcg.model.blas.kernels import function_module, product_tiles
from mavcg.profiles.core_timing import core_timing
from mavcg.profiles.load import load_core
from mavcg.toolchain.codegen import CodegenJob, compile_module
from mavcg.toolchain.target import default_target


def largest_tile(core: Core, dtype: str) -> tuple[ProductTile, str]:
    """The packed tile of all rows and columns of a library for one core, and its IR text."""
    model = model_of_core(core)
    assert model is not None
    blocks = plan_blas_blocks(dtype, {core.name: model}, {core.name: 1})
    (tile,) = (
        tile
        for tile in product_tiles(blocks)
        if (tile.form, tile.rows, tile.columns) == (PACKED, blocks.rows, blocks.columns)
    )
    return tile, function_module([tile], model.machine, core.name, default_target(core.arch))


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "dtype", "least"),
    [("cortex-a55", "f32", 7.6), ("cortex-a55", "f64", 3.8), ("cortex-a53", "f32", 5.0), ("cortex-a510", "f32", 9.0)],
)
def test_an_in_order_core_computes_near_its_peak(name: str, dtype: str, least: float, tmp_path: Path) -> None:
    """least: FLOP per cycle of the loop over terms; with fewer free registers an A55's did 3.7, an A53's 2.8."""
    core, timing = core_timing(name, ())
    tile, text = largest_tile(core, dtype)
    settings = CodeSettings(default_target(core.arch), core, FAST, "compiling a tile", KERNEL_FLAGS)
    symbol = f"{tile.symbol}.{name}"
    compile_kernels(text, symbol, settings, tmp_path / "tile.o")

    code = read_asm_input(tmp_path / "tile.o", core, [symbol])
    loop = max(estimate_function(code, code.functions[0], timing), key=lambda loop: loop.work.flops)

    assert loop.estimate is not None
    assert loop.work.flops == 2 * tile.rows * tile.columns * 2  # two terms of each sum
    assert loop.work.flops / loop.estimate.cycles >= least


@pytest.mark.parametrize("name", ["znver3", "haswell"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_sums_of_an_avx2_tile_stay_in_registers(name: str, dtype: str, tmp_path: Path) -> None:
    """Twelve sums, two vectors of A, an element of B; of 1 x 14 some lay on the stack, beside too many loads."""
    core = load_core(name)
    _, text = largest_tile(core, dtype)
    target = default_target(core.arch)
    compile_module(CodegenJob(text, target, "", "2", emit="asm", flags=KERNEL_FLAGS), tmp_path / "tile.s")

    blocks = re.split(r"^\.L\w+:", (tmp_path / "tile.s").read_text(), flags=re.MULTILINE)
    loop = max(blocks, key=lambda block: block.count("vfmadd"))

    assert loop.count("vfmadd") == 48 and "(%rsp" not in loop and "vmovap" not in loop
    assert len(re.findall(r"vbroadcasts|vmovddup|vmovup", loop)) == 4 * (6 + 2)
