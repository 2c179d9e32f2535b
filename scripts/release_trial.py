"""Trial of a release in a clean environment: a program and a network are built, run and compared.

scripts/release.py gives this text to an interpreter that has the wheel and no checkout. An assertion that fails ends
the release.
"""

import ctypes
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

import mavcg

SOURCE = """
void smooth(const float *restrict x, float *restrict y, int n) {
    for (int i = 1; i + 1 < n; i++) y[i] = 0.25f * x[i - 1] + 0.5f * x[i] + 0.25f * x[i + 1];
}
"""


def run(*arguments: str) -> str:
    """Run the command that the wheel installed; returns what it printed."""
    command = Path(sys.prefix) / "bin" / "mavcg"
    return subprocess.run([str(command), *arguments], check=True, capture_output=True, text=True).stdout


def program() -> None:
    """A function in C, for this machine's cores, called through the library."""
    Path("smooth.c").write_text(SOURCE)
    run("build", "--source", "smooth.c", "--hot", "smooth", "--board", "host", "-o", "libsmooth.so")
    x, y = np.arange(100, dtype=np.float32) ** 2, np.zeros(100, np.float32)
    library = ctypes.CDLL(str(Path("libsmooth.so").resolve()))
    library.smooth(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data), 100)
    assert np.array_equal(y[1:-1], x[:-2] / 4 + x[1:-1] / 2 + x[2:] / 4), "smooth computes something else"
    names = {function["name"] for function in json.loads(run("inspect", "libsmooth.so", "--json"))["functions"]}
    assert names == {"smooth"}, names


def network() -> None:
    """A convolution in an ONNX file, built for this machine and for a board, and run here."""
    weights = np.random.default_rng(0).standard_normal((8, 4, 1, 1)).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    shape_in, shape_out = [1, 4, 6, 6], [1, 8, 6, 6]
    graph = helper.make_graph(
        [node],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape_in)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape_out)],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), "net.onnx")
    run("build", "net.onnx", "--board", "exynos9820", "-o", "libnet_board.so")
    run("build", "net.onnx", "--board", "host", "-o", "libnet.so")
    x = np.random.default_rng(1).standard_normal(shape_in).astype(np.float32)
    expected = np.einsum("mc,nchw->nmhw", weights[:, :, 0, 0].astype(np.float64), x)
    with mavcg.load("libnet.so") as model:
        (y,) = model.run(x)
    assert np.abs(y - expected).max() < 1e-5, np.abs(y - expected).max()


if __name__ == "__main__":
    assert "site-packages" in mavcg.__file__, mavcg.__file__
    assert shutil.which("mavcg", path=str(Path(sys.prefix) / "bin")), "the wheel installs no mavcg"
    program()
    network()
