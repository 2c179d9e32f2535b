"""Comparison with an earlier state of mavcg: what it needs of the other checkout, and a network run in both."""

import sys
from pathlib import Path

import numpy as np
import pytest

from bench import before
from bench.records import ROOT
from mavcg.errors import MavcgError


@pytest.fixture
def relu_onnx(tmp_path: Path) -> Path:
    """A model of one Relu of 64 floats."""
    onnx = pytest.importorskip("onnx")
    value, node = onnx.helper.make_tensor_value_info, onnx.helper.make_node("Relu", ["x"], ["y"])
    graph = onnx.helper.make_graph([node], "relu", [value("x", 1, [1, 64])], [value("y", 1, [1, 64])])
    path = tmp_path / "relu.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def test_a_folder_without_an_environment_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(MavcgError, match=r"is not a checkout of mavcg with an environment; make -C .* setup makes one"):
        before.interpreter(tmp_path)


@pytest.mark.long
def test_both_states_build_and_run_the_network(
    relu_onnx: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The earlier state is this one, in a folder of its own with an interpreter of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(before, "model_path", lambda name: relu_onnx)
    checkout = tmp_path / "earlier"
    (checkout / ".venv" / "bin").mkdir(parents=True)
    python = checkout / ".venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    (checkout / "bench").symlink_to(ROOT / "bench")

    row = before.compare("relu", checkout, threads=1, rounds=2)

    assert row["difference"] == 0.0
    assert row["now_ms"] > 0 and row["then_ms"] > 0
    assert np.isfinite(row["ratio"]) and row["quartiles"][0] <= row["ratio"] <= row["quartiles"][1]
