"""A library whose indices come from a run: results beside onnxruntime's, and a status for one that does not exist."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mavcg
from mavcg.cli.app import run
from mavcg.errors import MavcgError

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

ROWS = 40_000  # so many that two threads share the check
RNG = np.random.default_rng(7)
GOOD: dict[str, Any] = {
    "x": RNG.standard_normal((6, 5, 4)).astype(np.float32),
    "i": RNG.integers(-30, 30, ROWS),
    "nd": np.stack([RNG.integers(-6, 6, 9), RNG.integers(-5, 5, 9)], -1),
    "e": RNG.integers(-5, 5, (6, 3, 4)),
    "u": RNG.standard_normal((9, 4)).astype(np.float32),
}
TEXT = "an index in an input, or computed from one, is outside of the tensor it counts in"


def make_model(path: Path) -> None:
    """Gather, GatherND, GatherElements and ScatterND, one result each."""
    node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [
        node("Reshape", ["x", "rows"], ["flat"]),
        node("Gather", ["flat", "i"], ["gathered"]),
        node("GatherND", ["x", "nd"], ["picked"]),
        node("GatherElements", ["x", "e"], ["elements"], axis=1),
        node("ScatterND", ["x", "nd", "u"], ["scattered"], reduction="add"),
    ]
    inputs = [value(name, 1 if a.dtype == np.float32 else 7, a.shape) for name, a in GOOD.items()]
    outputs = [value(name, 1, None) for name in ("gathered", "picked", "elements", "scattered")]
    rows = onnx.numpy_helper.from_array(np.array([30, 4]), "rows")
    graph = onnx.helper.make_graph(nodes, "g", inputs, outputs, [rows])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8), path)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory, cores: tuple[str, str]) -> Path:
    folder = tmp_path_factory.mktemp("indices")
    make_model(folder / "m.onnx")
    model, built = folder / "m.onnx", folder / "libindices.so"
    assert run(["build", str(model), "--cores", cores[0], "-o", str(built), "--jobs", "1"]) == 0
    return built


@pytest.mark.long
@pytest.mark.parametrize("threads", [1, 3])
def test_results_and_faults(library: Path, threads: int) -> None:
    want = onnxruntime.InferenceSession(str(library.parent / "m.onnx")).run(None, GOOD)
    with mavcg.load(library, threads=threads) as model:
        names = [tensor.name for tensor in model.inputs]

        def results(**changed: Any) -> list[Any]:
            return list(model.run(*((GOOD | changed)[name] for name in names)))

        def assert_right() -> None:
            for have, expected in zip(results(), want, strict=True):
                np.testing.assert_allclose(have, expected, rtol=1e-6, atol=1e-6)

        assert_right()
        for name, at, index in (
            ("i", ROWS - 1, 30),
            ("i", 0, -31),
            ("i", 20_000, 2**62),
            ("nd", (8, 1), 5),
            ("nd", (0, 0), -7),
            ("e", (5, 2, 3), -(2**63)),
        ):
            wrong = GOOD[name].copy()
            wrong[at] = index
            with pytest.raises(MavcgError, match=TEXT):
                results(**{name: wrong})
            assert_right()


@pytest.mark.long
def test_a_build_for_a_board_considers_rows_of_such_steps(library: Path, tmp_path: Path) -> None:
    """The choice of rows by caches, made where a board is named, once took the fault word for a tensor."""
    built = tmp_path / "libboard.so"
    assert run(["build", str(library.parent / "m.onnx"), "--board", "host", "-o", str(built), "--jobs", "1"]) == 0
    want = onnxruntime.InferenceSession(str(library.parent / "m.onnx")).run(None, GOOD)
    with mavcg.load(built) as model:
        for have, expected in zip(model.run(*(GOOD[tensor.name] for tensor in model.inputs)), want, strict=True):
            np.testing.assert_allclose(have, expected, rtol=1e-6, atol=1e-6)
