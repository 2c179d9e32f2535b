"""The drop-in examples, as their first lines say that they are used."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("ai_edge_litert.interpreter")

from tests.mavcg.cli.litert_models import chain  # noqa: E402
from tests.mavcg.cli.partial_models import make_model  # noqa: E402
from tests.mavcg.importers.tflite.conftest import Writer  # noqa: E402

EXAMPLES = Path(__file__).parents[2] / "examples" / "drop_in"


def run(folder: Path, *command: str) -> str:
    done = subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check(said: str) -> None:
    """The results are near, and both were timed."""
    assert re.search(r"before [\d.]+ ms, after [\d.]+ ms", said)
    pairs = re.findall(r"apart (\S+), largest (\S+)", said)
    assert pairs and all(float(apart) <= 1e-5 * float(largest) for apart, largest in pairs)


@pytest.mark.long
def test_onnxruntime_app(tmp_path: Path) -> None:
    make_model(tmp_path / "detector.onnx", batch=1)
    options = ["--partial", "-o", "libdetector.so", "--also", "detector.mavcg.onnx"]
    run(tmp_path, "-m", "mavcg.cli", "build", "detector.onnx", "--board", "host", *options)
    app = str(EXAMPLES / "onnxruntime_app.py")
    check(run(tmp_path, app, "detector.onnx", "detector.mavcg.onnx", "./libdetector.so"))


@pytest.mark.long
def test_litert_app(tmp_path: Path) -> None:
    (tmp_path / "face.tflite").write_bytes(chain(Writer()))
    run(tmp_path, "-m", "mavcg.cli", "build", "face.tflite", "--board", "host", "--partial", "-o", "libface.so")
    check(run(tmp_path, str(EXAMPLES / "litert_app.py"), "face.tflite", "./libface.so"))


@pytest.mark.long
def test_numpy_app(tmp_path: Path) -> None:
    run(tmp_path, "-m", "mavcg.cli", "blas", "build", "--board", "host", "-o", "libmavcg_blas.so")
    check(run(tmp_path, str(EXAMPLES / "numpy_app.py"), "./libmavcg_blas.so"))
    before, after = (np.load(tmp_path / f"{name}.npy") for name in ("before", "after"))
    assert before.tobytes() != after.tobytes()  # another order of sums: the preloaded library computed them
