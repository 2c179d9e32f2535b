"""examples/small_cnn as `make demo` builds it, for this machine: the C program, Python and onnxruntime agree."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mavcg
from mavcg.toolchain.zig import run_zig

onnx = pytest.importorskip("onnx", reason="the example writes an ONNX file")

FOLDER = Path(__file__).parents[2] / "examples/small_cnn"


def make(path: Path) -> bytes:
    """The model's file."""
    subprocess.run([sys.executable, str(FOLDER / "make_model.py"), str(path)], check=True)
    return path.read_bytes()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small_cnn")
    make(folder / "small_cnn.onnx")
    output = folder / "libsmall_cnn.so"
    command = [sys.executable, "-m", "mavcg.cli", "build", str(folder / "small_cnn.onnx"), "--board", "host"]
    subprocess.run([*command, "-o", str(output), "--json"], check=True, stdout=subprocess.PIPE)
    return output


def picture() -> np.ndarray:
    """What draw() in app.c makes."""
    state, values = 1, []
    for _ in range(3 * 128 * 128):
        state = (state * 1664525 + 1013904223) % 2**32
        values.append((state >> 24) / 128 - 1)
    return np.array(values, np.float32).reshape(1, 3, 128, 128)


def checksum(array: np.ndarray) -> str:
    """What app.c makes of its outputs."""
    total = 2166136261
    for bits in array.reshape(-1).view(np.uint32).tolist():
        total = (total ^ bits) * 16777619 % 2**32
    return f"{total:08x}"


@pytest.mark.long
def test_the_file_is_the_same_every_time(tmp_path: Path) -> None:
    assert make(tmp_path / "a.onnx") == make(tmp_path / "b.onnx")


def test_program_and_python_agree(library: Path) -> None:
    folder = library.parent
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", f"-I{folder}", f"-Wl,-rpath,{folder}"]
    run_zig("cc", [*flags, str(FOLDER / "app.c"), str(library), "-o", str(folder / "app")], "compiling app.c")
    with mavcg.load(library) as model:
        (found,) = model.run(picture())
        kept = np.zeros_like(found)
        (written,) = model.run(picture(), out=kept)  # one output: the array alone will do
        assert written is kept and kept.tobytes() == found.tobytes()
    for threads in ("1", "3"):
        said = subprocess.run([str(folder / "app"), threads], check=True, capture_output=True, text=True).stdout
        assert said.split()[1] == f"{int(found.argmax())},"
        assert said.split()[-1] == checksum(found)


def test_agrees_with_onnxruntime(library: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(library.parent / "small_cnn.onnx"), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"picture": picture()})
    with mavcg.load(library, threads=2) as model:
        (found,) = model.run(picture())
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)
    assert abs(float(found.sum()) - 1) < 1e-5
