"""BLAS libraries: their notes, the options that are refused, and their plans."""

import json
from pathlib import Path
from typing import Any

import pytest

from mavcg.choose.tiles.blas_blocks import plan_blas_blocks
from mavcg.cost.board_model import cores_each, cores_of
from mavcg.hardware.core import GENERIC
from mavcg.model.blas.kernels import product_tiles
from mavcg.objects.elf import exported_symbols
from mavcg.profiles.load import cores_for, load_boards
from mavcg.runtime.machines import machines_for
from mavcg.specs.blas_blocks import PRODUCT_TYPES, TALL_COLUMNS, BlasBlocks
from mavcg.toolchain.target import parse_target

THREADS = {"mavcg_blas_set_num_threads", "mavcg_blas_get_num_threads"}


def test_inspect_names_the_exported_routines(blas_path: Path, mavcg: Any) -> None:
    ended = mavcg("inspect", str(blas_path), "--json")
    note = json.loads(ended.stdout)

    assert set(note["blas"]["routines"]) | THREADS == set(exported_symbols(blas_path))
    assert {"sgemm_", "dgemm_", "cblas_sgemm", "cblas_dgemm64_"} <= set(note["blas"]["routines"])
    assert note["blas"]["integer_bits"] == 32 and note["blas"]["versions"][0] == GENERIC
    assert "sgemm_" in mavcg("inspect", str(blas_path)).stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-o", "libx.so"), "no cores are named"),
        (("--board", "host", "-o", "x.txt"), "a BLAS is a shared library"),
        (("--board", "host", "-o", "none/libx.so"), "the folder none does not exist"),
        (("--board", "nowhere", "-o", "libx.so"), "nowhere"),
        (("--board", "host", "--target", "aarch64-linux-gnu", "-o", "libx.so"), "name cores of one architecture"),
        (("--cores", "cortex-a55", "--target", "aarch64-linux-android", "-o", "libx.so"), "Linux with glibc or musl"),
    ],
)
def test_bad_options_are_named(words: tuple[str, ...], said: str, mavcg: Any) -> None:
    ended = mavcg("blas", "build", *words)
    assert ended.status == 2 and said in ended.stderr.replace("\n", " ")
    assert "Traceback" not in ended.stderr


def blocks_of(board_name: str, dtype: str) -> BlasBlocks:
    board = load_boards()[board_name]
    target = parse_target(board.target)
    machines = machines_for(cores_for(list(board.cores)), target)
    labels = tuple(machines)
    return plan_blas_blocks(dtype, cores_of(labels, target, board), cores_each(labels, board))


@pytest.mark.sample(10)
@pytest.mark.parametrize("dtype", sorted(PRODUCT_TYPES))
@pytest.mark.parametrize("board", sorted(load_boards()))
def test_blocks_fit_the_caches_of_every_board(board: str, dtype: str) -> None:
    blocks = blocks_of(board, dtype)
    machines = machines_for(cores_for(list(load_boards()[board].cores)), parse_target(load_boards()[board].target))

    assert blocks.mc % blocks.rows == 0 and blocks.nc % blocks.columns == 0 and blocks.kc >= 32
    levels = cores_of(load_boards()[board].cores, parse_target(load_boards()[board].target), load_boards()[board])
    assert blocks.kc // blocks.step_terms * (blocks.rows + blocks.columns) * blocks.packed_bytes <= min(
        core.levels[0].shared_bytes for core in levels.values()
    )
    assert all(blocks.lanes * blocks.item_bytes % machine.vector_bytes == 0 for machine in machines.values())
    heights = blocks.units + (blocks.narrow_rows > 0)
    packed = blocks.step_terms > 1 or blocks.in_f16
    tall = TALL_COLUMNS if blocks.tall_units and not packed else 0
    forms = 1 if packed else 3
    more = max(0, blocks.wide_columns - blocks.columns)  # of wide tiles, that read B by terms or by columns
    wide = 2 * (1 + (blocks.narrow_rows > 0)) * more if not packed else 0
    assert len({tile.symbol for tile in product_tiles(blocks)}) == forms * heights * blocks.columns + tall + wide
    assert blocks.narrow_rows in (0, blocks.lanes // 2)
