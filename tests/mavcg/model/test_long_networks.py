"""The processor time of builds of long networks: as much for a loop of any length, linear for unrolled steps."""

import os
import resource
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mavcg.choose.lowering.lower import lower_graph
from mavcg.choose.lowering.step_list import plan_lowered
from mavcg.files.child_python import commands_folder
from mavcg.importers.onnx_file import import_onnx
from mavcg.memory.node_order import order_nodes
from mavcg.passes.graph.pipeline import optimise
from tests.mavcg.importers import test_onnx_recurrent_quantized as quantised
from tests.mavcg.importers.test_onnx_recurrent import model
from tests.mavcg.model.test_loops import PACKING

pytestmark = pytest.mark.long


def least_seconds(work: Callable[[], object]) -> float:
    """The least processor time of three."""
    seconds = []
    for _ in range(3):
        begin = time.process_time()
        work()
        seconds.append(time.process_time() - begin)
    return min(seconds)


def test_an_import_of_200_time_steps(tmp_path: Path) -> None:
    model(tmp_path / "m.onnx", "LSTM", 200)
    assert least_seconds(lambda: import_onnx(tmp_path / "m.onnx")) < 2  # unrolled
    model(tmp_path / "m.onnx", "LSTM", 100_000)
    assert least_seconds(lambda: import_onnx(tmp_path / "m.onnx", loops=True)) < 0.5


def test_the_time_to_plan_is_linear_in_the_nodes(tmp_path: Path) -> None:
    """Import, passes, the order of the nodes, lowering and memory, of 500 nodes to 4,200."""

    def plan(path: Path) -> int:
        graph = order_nodes(optimise(import_onnx(path))).graph
        plan_lowered(lower_graph(graph, PACKING))
        return len(graph.nodes)

    seconds, nodes = [], []
    for steps in (35, 70, 140, 280):
        model(tmp_path / "m.onnx", "LSTM", steps)
        seconds.append(least_seconds(lambda: nodes.append(plan(tmp_path / "m.onnx"))))
    assert nodes[-1] > 4_000
    for few, many in zip(seconds, seconds[1:], strict=False):
        assert many < 2.6 * few, seconds


def build_seconds(folder: Path, *options: str) -> float:
    """The processor time of a whole build, with all its processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [str(commands_folder() / "mavcg"), "build", "m.onnx", "--board", "exynos9820", "-o", "libm.so", *options]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, env={**os.environ, "MAVCG_CACHE": "off"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_a_build_of_a_thousand_nodes(tmp_path: Path) -> None:
    model(tmp_path / "m.onnx", "LSTM", 71)  # 1,068 nodes, in half precision unrolled
    assert build_seconds(tmp_path, "--precision", "bf16") < 20


@pytest.mark.parametrize(("options", "growth"), [((), 1.5), (("--precision", "bf16"), 2.5)], ids=["loop", "unrolled"])
def test_builds_of_an_8_bit_layer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], growth: float
) -> None:
    """A build for 32 time steps takes at most `growth` times the processor time of one for 8."""
    seconds = []
    for steps in (8, 32):
        monkeypatch.setattr(quantised, "STEPS", steps)
        quantised.model(tmp_path / "m.onnx")
        seconds.append(build_seconds(tmp_path, *options))
    assert seconds[1] < min(20, growth * seconds[0]), seconds
