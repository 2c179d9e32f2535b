"""Choices for Arm boards read no constant that was fitted on an x86."""

import json
from pathlib import Path
from typing import Any

import pytest

from mavcg.hardware.cost_fit import X86, CostFit
from mavcg.profiles import cost_fits
from mavcg.profiles.folders import files
from mavcg.profiles.load import load_board


@pytest.fixture
def no_x86(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse the constants of x86 cores."""
    read = cost_fits.load_cost_fit

    def refuse(kind: str) -> CostFit:
        assert kind != X86, "constants of x86 cores are read"
        return read(kind)

    monkeypatch.setattr(cost_fits, "load_cost_fit", refuse)
    cost_fits.fit_of_kind.cache_clear()


@pytest.mark.long
@pytest.mark.usefixtures("no_x86")
def test_a_prediction_and_a_selection_for_an_arm_board_read_none(mavcg: Any, tiny_onnx: Path, tmp_path: Path) -> None:
    predicted = mavcg("estimate", tiny_onnx, "--board", "exynos9820", "--threads", "auto", "--json")
    assert predicted.status == 0 and json.loads(predicted.stdout)["layers"]
    selected = mavcg("select", tiny_onnx, "--board", "exynos9820", "--threads", "4", "--json")
    assert selected.status == 0, selected.stderr
    built = mavcg("build", tiny_onnx, "--board", "rk3588", "-o", str(tmp_path / "libtiny.so"))
    assert built.status == 0, built.stderr


@pytest.mark.usefixtures("no_x86")
def test_machines_of_all_arm_boards_have_constants_of_their_kind() -> None:
    from mavcg.cost.board_model import core_models

    boards = [load_board(name) for name in files("boards")]
    for board in boards:
        if board.target.startswith("aarch64"):
            assert all(machine.fit.steps.step_cycles > 0 for machine in core_models(board))
