"""Tiles of rows whose number a run decides: each row is in one tile, and a rest takes little longer than its share."""

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir

from mavcg.kernels.builder.emit import I64, KERNEL_TYPE, address, operand, scale_index
from mavcg.kernels.builder.tiles import joined_tiles, row_tiles, tail_tiles, tail_widths, tiles_cost
from mavcg.kernels.gemm.register_tile import choose, shared_cycles, short_tile
from mavcg.profiles.load import cores_for
from mavcg.runtime.kernel_call import KernelCall
from mavcg.runtime.machines import machines_for, packing_for
from mavcg.toolchain.target import parse_target
from tests.kernels.host_engine import host_engine


def binary_tiles(rows: int, most: int) -> tuple[int, ...]:
    """Rows in tiles of `most` and powers of two, the widest first."""
    widths = (most, *(1 << bit for bit in range(4, -1, -1) if 1 << bit < most))
    tiles: list[int] = []
    for width in widths:
        tiles += [width] * ((rows - sum(tiles)) // width)
    return tuple(tiles)


@pytest.mark.parametrize("short", [1, 2, 4, 8])
@pytest.mark.parametrize("most", [*range(1, 31)])
def test_a_rest_is_cut_into_the_tiles_of_least_time(most: int, short: int) -> None:
    for rest in range(most):
        for rows in range(rest, rest + most * joined_tiles(rest, most, short) + 1, most):
            tiles = tail_tiles(rows, most, short)
            assert max(map(tiles.count, tiles), default=0) <= 3  # the table has two bits for each
            assert sum(tiles) == rows and set(tiles) <= set(tail_widths(most))
            assert tiles_cost(tiles, short) <= tiles_cost(binary_tiles(rows, most), short)


def test_few_rows_behind_a_wide_tile_are_cut_with_it() -> None:
    """A tile of one row takes as long as one of four: 7 rows are 8 rows of time in place of 10, 13 are 13."""
    assert tail_tiles(7, 6) == (4, 3) and tail_tiles(13, 6) == (5, 4, 4) and joined_tiles(1, 6) == 2
    assert tail_tiles(9, 6) == (5, 4) and joined_tiles(3, 6) == 2  # 15 are 5, 5 and 5
    # Of four vectors a tile of one row takes as long as one of two.
    assert tail_tiles(5, 4, 2) == (3, 2) and joined_tiles(1, 4, 2) == joined_tiles(1, 4) == 2


@pytest.mark.parametrize(("core", "target"), [("znver3", "x86_64-linux-gnu"), ("cortex-a76", "aarch64-linux-gnu")])
def test_a_run_of_any_length_takes_about_the_cycles_of_the_tiles_for_its_length(core: str, target: str) -> None:
    """By the model of register tiles, of products of 256 x 256. For one or two pixels other widths are better."""
    machine = machines_for(cores_for([core]), parse_target(target))[core]
    lanes = machine.vector_bytes // 4
    vectors, panel = 256 // lanes, packing_for(parse_target(target)).lanes // lanes
    usual = choose(machine, 64, vectors, 256, panel)
    most, short = usual.widths.mr, short_tile(machine, usual.vectors)
    for pixels in range(3, 65):
        rest = pixels % most
        joined = min(pixels // most, joined_tiles(rest, most, short))
        tiles = [most] * (pixels // most - joined) + [*tail_tiles(rest + most * joined, most, short)]
        cycles = sum(shared_cycles(machine, rows, usual.vectors, 256) for rows in tiles) * vectors / usual.vectors
        own = choose(machine, pixels, vectors, 256, panel)
        assert sum(tiles) == pixels and cycles <= (1.16 if pixels == 3 else 1.03) * own.shared


@pytest.mark.parametrize("most", [1, 2, 3, 6, 7, 8, 13, 14, 26, 30])
def test_each_row_is_in_one_tile(most: int) -> None:
    """The tiles of a kernel that writes at each tile's first row how many rows it has."""
    module = ir.Module("tiles")
    module.triple = llvm.get_default_triple()
    function = ir.Function(module, KERNEL_TYPE, "kernel")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    out, (_, begin, end, _) = operand(b, 0), function.args

    def tile(row: ir.Value, rows: int) -> None:
        place = address(b, out, scale_index(b, row, 8))
        b.store(b.add(b.load(place, typ=I64), ir.Constant(I64, rows)), place)

    row_tiles(b, begin, end, most, tile)
    b.ret_void()
    found = np.zeros(100, np.int64)
    engine = host_engine(module)
    call = KernelCall(engine.get_function_address("kernel"), [found.ctypes.data], 0)
    for first in (0, 5):
        for rows in range(95):
            found[:] = 0
            call(first, first + rows)
            at, tiles = first, list[int]()
            while at < first + rows and found[at]:
                tiles.append(int(found[at]))
                at += tiles[-1]
            assert sum(tiles) == rows == found.sum()
            whole = sum(width == most for width in tiles)
            assert tiles_cost(tiles) <= tiles_cost(binary_tiles(rows, most)) and tiles[:whole] == [most] * whole
