"""The five sizes of BLIS for every core: a table that shows when a choice changes, and that builds choose the same."""

from dataclasses import astuple
from pathlib import Path

import pytest

from mavcg.choose.tiles.blas_blocks import plan_blas_blocks
from mavcg.choose.tiles.core_blocking import BLAS, MODELS, core_blocking, model_of_core
from mavcg.cost.board_model import cores_each, cores_of
from mavcg.hardware.core import Core
from mavcg.profiles.folders import files
from mavcg.profiles.load import load_core, load_cores
from mavcg.runtime.machines import machines_for
from mavcg.specs.blas_blocks import ITEM_BYTES, Blocking
from mavcg.toolchain.target import default_target


def blocking_of(core: Core) -> dict[str, dict[str, Blocking]]:
    model = model_of_core(core)
    assert model is not None
    return core_blocking(model)


def blocking_text(core: Core) -> str:
    """A line for each kind of library and data type: core, library, type, MR, NR, MC, KC, NC."""
    return "".join(
        " ".join(map(str, (core.name, kind, dtype, *astuple(sizes)))) + "\n"
        for kind, planned in blocking_of(core).items()
        for dtype, sizes in planned.items()
    )


@pytest.mark.long
def test_blocking_of_every_core(golden: object) -> None:
    text = "".join(map(blocking_text, load_cores().values()))

    assert golden == f"core library type MR NR MC KC NC\n{text}"


@pytest.mark.parametrize("dtype", ITEM_BYTES)
def test_a_blas_library_for_one_core_has_its_blocking(dtype: str) -> None:
    """Planned as `mavcg blas build --cores CORE` does it, with the generic version beside the core's."""
    for core in load_cores().values():
        target = default_target(core.arch)
        machines = machines_for([core], target)
        labels = tuple(machines)
        blocks = plan_blas_blocks(dtype, cores_of(labels, target), cores_each(labels, None))

        assert blocks.blocking == blocking_of(core)[BLAS][dtype], core.name


def test_blocks_are_whole_register_tiles_in_a_blas_library() -> None:
    for core in load_cores().values():
        for sizes in blocking_of(core)[BLAS].values():
            assert sizes.mc % sizes.mr == 0 and sizes.nc % sizes.nr == 0, core.name


def test_an_x86_core_without_avx2_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = files("cores")["haswell"].read_text().replace('"haswell"', '"old"', 1)
    (tmp_path / "cores").mkdir()
    (tmp_path / "cores/old.toml").write_text(text.replace('cpu = "haswell"', 'cpu = "x86-64-v2"'))
    monkeypatch.setenv("MAVCG_PROFILES", str(tmp_path))

    assert model_of_core(load_core("old")) is None


def test_eight_bit_sums_are_not_cut() -> None:
    for core in load_cores().values():
        assert blocking_of(core)[MODELS]["u8"].kc == 1024
