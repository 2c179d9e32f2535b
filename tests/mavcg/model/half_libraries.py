"""A network in half precision, linked with a C program and run in the emulator."""

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from mavcg.toolchain.zig import run_zig
from tests.machine import QEMU, SYSROOT

Array = NDArray[Any]
RUN_MODEL = Path(__file__).parents[2] / "pipelines/run_model.c"


def network(path: Path, dtype: Any = np.float32) -> Path:
    """Every kind of layer: convolutions, a residual, pools, attention, norms, an activation, a resize."""
    rng, kind = np.random.default_rng(0), onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    def array(name: str, *shape: int, size: float = 0.3) -> Any:
        return onnx.numpy_helper.from_array((rng.standard_normal(shape) * size).astype(dtype), name)

    node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["a"], "conv_1", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", ["a"], ["b"], "relu"),
        node("Conv", ["b", "wd"], ["c"], "depthwise", pads=[1, 1, 1, 1], group=16),
        node("Add", ["c", "b"], ["d"], "add"),
        node("MaxPool", ["d"], ["e"], "max_pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["e", "w2", "b2"], ["f"], "conv_2"),
        node("HardSwish", ["f"], ["g"], "hard_swish"),
        node("Resize", ["g", "", "scales"], ["h"], "resize", mode="linear"),
        node("AveragePool", ["h"], ["i"], "average_pool", kernel_shape=[3, 3], strides=[2, 2]),
        node("Reshape", ["i", "rows"], ["j"], "rows"),
        node("Transpose", ["j"], ["k"], "columns", perm=[0, 2, 1]),
        node("MatMul", ["j", "k"], ["l"], "scores"),
        node("Softmax", ["l"], ["m"], "softmax", axis=2),
        node("MatMul", ["m", "j"], ["n"], "mix"),
        node("LayerNormalization", ["n", "scale", "shift"], ["o"], "norm", axis=2),
        node("ReduceMean", ["o"], ["p"], "mean", axes=[1], keepdims=0),
        node("Gemm", ["p", "w3", "b3"], ["y"], "classes", transB=1),
    ]
    arrays = [
        array("w1", 16, 3, 3, 3),
        array("b1", 16),
        array("wd", 16, 1, 3, 3),
        array("w2", 24, 16, 1, 1),
        array("b2", 24),
        array("scale", 49, size=1),
        array("shift", 49),
        array("w3", 10, 49),
        array("b3", 10),
        onnx.numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales"),
        onnx.numpy_helper.from_array(np.array([1, 24, 49]), "rows"),
    ]
    graph = onnx.helper.make_graph(
        nodes, "layers", [value("x", kind, [1, 3, 32, 32])], [value("y", kind, [1, 10])], arrays
    )
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def image() -> Array:
    return np.random.default_rng(3).standard_normal((1, 3, 32, 32)).astype(np.float32)


def link(folder: Path) -> None:
    flags = ["-target", "aarch64-linux-gnu.2.17", "-std=gnu11", "-O1", "-pthread", "-fno-sanitize=all", f"-I{folder}"]
    end = [str(RUN_MODEL), str(folder / "libroad.so"), f"-Wl,-rpath,{folder}", "-o", str(folder / "run_model")]
    run_zig("cc", [*flags, *end], "linking the program")


def emulate(folder: Path, cpu: str, threads: int = 1, check: bool = True) -> "subprocess.CompletedProcess[str]":
    words = [str(QEMU), "-L", str(SYSROOT), "-cpu", cpu, "./run_model", "inputs.bin", "outputs.bin", str(threads), "2"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAVCG_")}
    return subprocess.run(
        words, cwd=folder, env=environment | {"MAVCG_TRACE": "1"}, capture_output=True, text=True, check=check
    )
