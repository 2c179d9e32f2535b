"""The work of builds of long networks: as much for a loop of any length, linear for unrolled steps.

Work is counted in calls of Python functions, which no other load changes.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from mavcg.choose.lowering.lower import lower_graph
from mavcg.choose.lowering.step_list import plan_lowered
from mavcg.cli.app import run
from mavcg.importers.onnx_file import import_onnx
from mavcg.memory.node_order import order_nodes
from mavcg.passes.graph.pipeline import optimise
from tests.mavcg.importers import test_onnx_recurrent_quantized as quantised
from tests.mavcg.importers.recurrent_models import model
from tests.mavcg.model.lowered_runs import PACKING

pytestmark = pytest.mark.long


def calls_of(work: Callable[[], object]) -> int:
    """Return how many Python functions some work calls in this thread."""
    count = 0

    def seen(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_an_import_is_linear_in_the_time_steps(tmp_path: Path) -> None:
    calls = {}
    for steps, loops in ((100, False), (200, False), (100, True), (100_000, True)):
        model(tmp_path / "m.onnx", "LSTM", steps)
        calls[steps, loops] = calls_of(lambda loops=loops: import_onnx(tmp_path / "m.onnx", loops=loops))  # type: ignore[misc]
    assert calls[200, False] < 2.2 * calls[100, False], calls
    assert calls[100_000, True] < 1.1 * calls[100, True], calls


def test_planning_is_linear_in_the_nodes(tmp_path: Path) -> None:
    """Import, passes, the order of the nodes, lowering and memory, of 500 nodes to 4,200."""

    def plan(path: Path) -> int:
        graph = order_nodes(optimise(import_onnx(path))).graph
        plan_lowered(lower_graph(graph, PACKING))
        return len(graph.nodes)

    calls: list[int] = []
    nodes: list[int] = []
    for steps in (35, 70, 140, 280):
        model(tmp_path / "m.onnx", "LSTM", steps)
        calls.append(calls_of(lambda: nodes.append(plan(tmp_path / "m.onnx"))))
    assert nodes[-1] > 4_000
    for few, many in zip(calls, calls[1:], strict=False):
        assert many < 2.3 * few, calls


def calls_of_build(folder: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> int:
    """Return how many Python functions a whole build calls, apart from its workers."""
    monkeypatch.setenv("MAVCG_CACHE", "off")
    words = ["build", str(folder / "m.onnx"), "--board", "exynos9820", "-o", str(folder / "libm.so"), *options]
    return calls_of(lambda: run(words))


def test_a_build_is_linear_in_the_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    for steps in (35, 71):  # the latter 1,068 nodes, in half precision unrolled
        model(tmp_path / "m.onnx", "LSTM", steps)
        calls.append(calls_of_build(tmp_path, monkeypatch, "--precision", "bf16"))
    assert (tmp_path / "libm.so").exists() and calls[1] < 2.3 * calls[0], calls


@pytest.mark.parametrize(("options", "growth"), [((), 1.5), (("--precision", "bf16"), 4.4)], ids=["loop", "unrolled"])
def test_builds_of_an_8_bit_layer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], growth: float
) -> None:
    """A build for 32 time steps calls at most `growth` times the functions of one for 8."""
    calls = []
    for steps in (8, 32):
        monkeypatch.setattr(quantised, "STEPS", steps)
        quantised.model(tmp_path / "m.onnx")
        calls.append(calls_of_build(tmp_path, monkeypatch, *options))
    assert (tmp_path / "libm.so").exists() and calls[1] < growth * calls[0], calls
