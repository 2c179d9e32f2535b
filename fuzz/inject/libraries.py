"""Builds what failures are injected into: `python -m fuzz.inject.libraries FOLDER [NAME ..]`.

Libraries of all kinds as mavcg builds them, from small networks; only their C is compiled by gcc, with the address and
undefined-behaviour sanitizers, and with calls.h, by which its calls of the system can fail.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.c.drop_in_headers import CALLED, tflite_network, write_headers
from fuzz.unit_compiler import compile_units_by
from mavcg.cli.app import run
from mavcg.runtime.blas_build import BLAS_TABLES
from mavcg.toolchain.zig import run_tool, run_zig
from tests.mavcg.cli.sanitized_build import FLAGS

Shapes = Mapping[str, Sequence[int | str]]  # of tensors by name
HERE = Path(__file__).parent
INJECTED = ("-DINJECT_FILES", "-include", str(HERE / "calls.h"))


def compile_injected(tool: str, arguments: Sequence[str], action: str, cwd: Path | None = None) -> str:
    """Stand in for run_zig: C that is compiled goes to gcc with sanitizers and calls that may fail."""
    sources = [each for each in arguments if each.endswith(".c")]
    if tool != "cc" or "-c" not in arguments or not sources:
        return run_zig(tool, arguments, action, cwd)
    kept = [each for each in arguments if each.startswith(("-I", "-D"))]
    machine = ("-march=x86-64-v3",) if any("x86_64" in each for each in arguments) else ()
    output = arguments[list(arguments).index("-o") + 1]
    for header in Path(sources[0]).parent.glob(BLAS_TABLES):  # a BLAS has no variable: its threads too sleep at once
        header.write_text(re.sub(r"#define SPIN_US \d+", "#define SPIN_US 0", header.read_text()))
    return run_tool(["gcc", *FLAGS, *machine, *INJECTED, *kept, "-c", sources[0], "-o", output], action, cwd)


def write_models(folder: Path) -> None:
    """Write the networks: two layers, of free rows; convolutions; and a recurrent one with a state."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)

    def tensors(shapes: Shapes) -> list[Any]:
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]

    def save(name: str, nodes: Sequence[Any], inputs: Shapes, outputs: Shapes, **weights: Any) -> None:
        constants = [numpy_helper.from_array(array, weight) for weight, array in weights.items()]
        graph = helper.make_graph(nodes, name, tensors(inputs), tensors(outputs), constants)
        opset = [helper.make_opsetid("", 17)]
        onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), folder / f"{name}.onnx")

    def random(*shape: int) -> Any:
        return rng.normal(0, 0.3, shape).astype(np.float32)

    dense = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Tanh", ["m"], ["t"])]
    dense.append(helper.make_node("MatMul", ["t", "v"], ["y"]))
    save("dense", dense, {"x": ["rows", 64]}, {"y": ["rows", 48]}, w=random(64, 96), v=random(96, 48))
    ragged = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["r"])]
    ragged.append(helper.make_node("Softmax", ["r"], ["y"], axis=-1))
    save("ragged", ragged, {"x": ["batch", "rows", 16]}, {"y": ["batch", "rows", 24]}, w=random(16, 24))
    conv = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["c"], ["r"])]
    conv.append(helper.make_node("Conv", ["r", "v"], ["y"], pads=[1, 1, 1, 1]))
    shape = [1, 32, 40, 40]  # as much work as is worth a second thread
    save("conv", conv, {"x": shape}, {"y": shape}, w=random(32, 32, 3, 3), v=random(32, 32, 3, 3))
    gru = [helper.make_node("GRU", ["x", "W", "R", "", "", "h"], ["y", "h_next"], hidden_size=16)]
    inputs, outputs = {"x": [4, 1, 8], "h": [1, 1, 16]}, {"y": [4, 1, 1, 16], "h_next": [1, 1, 16]}
    save("gru", gru, inputs, outputs, W=random(1, 48, 8), R=random(1, 48, 16))
    save(
        "small",
        [helper.make_node("Conv", ["x", "w"], ["y"])],
        {"x": [1, 4, 6, 6]},
        {"y": [1, 4, 4, 4]},
        w=random(4, 4, 3, 3),
    )
    (folder / "m.tflite").write_bytes(tflite_network())
    (folder / "app.toml").write_text(
        '[[network]]\nname = "first"\nfile = "conv.onnx"\n\n'
        '[[network]]\nname = "second"\nfile = "conv.onnx"\npartitions = "auto:2"\n'
    )


LIBRARIES: Mapping[str, Sequence[str]] = {
    "engine": ("build", "conv.onnx"),
    "states": ("build", "gru.onnx", "--state", "h=h_next"),
    "bounded": ("build", "dense.onnx", "--shape", "x=1..32x64"),
    "sizes": ("build", "dense.onnx", "--shape", "x=1,4,32x64"),
    "application": ("app", "build", "app.toml"),
    "blas": ("blas", "build"),
    "custom_ops": ("build", "dense.onnx", "--partial", "--shape", "x=1,512x64", "--also", CALLED),
    "delegate": ("build", "m.tflite", "--partial"),
}


def build(folder: Path, name: str) -> Path:
    """Build one library into a folder that has the models. Raises: SystemExit where mavcg refuses."""
    compile_units_by(compile_injected)
    out = folder / f"lib{name}.so"
    words = [str(folder / word) if word.endswith((".onnx", ".tflite", ".toml")) else word for word in LIBRARIES[name]]
    status = run([*words, "--board", "host", "-o", str(out)])
    if status:
        raise SystemExit(f"fuzz.inject.libraries: {name}: mavcg ended with status {status}")
    if b"__asan_report_load8" not in out.read_bytes():  # nor would any of its calls fail
        raise SystemExit(f"fuzz.inject.libraries: {name}: its C was not compiled with sanitizers")
    return out


def main(folder: Path, names: Sequence[str]) -> None:
    """Write the models and build the libraries."""
    folder.mkdir(parents=True, exist_ok=True)
    write_models(folder)
    for name in names or LIBRARIES:
        build(folder, name)
    if (folder / CALLED).exists():
        write_headers(folder, folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
