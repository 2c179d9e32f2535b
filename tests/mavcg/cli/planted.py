"""Commands of the pages run in a folder with modules that must not be executed."""

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from mavcg.cli.app import make_app
from tests.mavcg.cli.conftest import DOT
from tests.mavcg.cli.verbs import VERBS

PLANTED = (
    "mavcg",
    "sitecustomize",
    "usercustomize",
    "distributed",
    "dask",
    "numpy",
    "onnx",
    "llvmlite",
    "rich",
    "typer",
)
ELSEWHERE = re.compile(r"dask://|ssh:|adb|fleet:|\||\bvgg16\b|\bresnet50 |googlenet")  # other machines; minutes
MODELS = (
    "mobilenet_v2.onnx",
    "net.onnx",
    "squeezenet.onnx",
    "resnet50.onnx",
    "detector.onnx",
    "face.onnx",
    "hands.onnx",
)
BUFFERS = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\n"
MARK = "executed"


def commands_by_name() -> dict[tuple[str, ...], Any]:
    """The command of each verb."""
    found = {}
    for verb in VERBS:
        command: Any = typer.main.get_command(make_app())
        for word in verb:
            command = command.commands[word]
        found[verb] = command
    return found


def examples_of(command: Any) -> list[list[str]]:
    """The words of each example in a command's help that runs on this machine alone."""
    lines = [line.partition("#")[0].strip() for line in (command.help or "").splitlines()]
    return [
        line.split()[1:] for line in lines if re.match(r"mavcg [a-z-]+ [^,]*$", line) and not ELSEWHERE.search(line)
    ]


def lay_out(folder: Path) -> None:
    """Write the files that the examples name, and the modules that leave a mark."""
    onnx = pytest.importorskip("onnx")
    value = onnx.helper.make_tensor_value_info
    weights = [onnx.numpy_helper.from_array(np.ones((4, 3, 3, 3), np.float32), "w")]
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], name="conv1", pads=[1, 1, 1, 1])
    graph = onnx.helper.make_graph([node], "g", [value("x", 1, [1, 3, 8, 8])], [value("y", 1, [1, 4, 8, 8])], weights)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)])
    for name in MODELS:
        onnx.save(model, folder / name)
    for name in ("kernel.S", "gemm.S"):
        (folder / name).write_text(DOT)
    for name in ("A.1048576.csv", "buffers.csv"):
        (folder / name).write_text(BUFFERS)
    (folder / "sgemm.c").write_text("float sgemm(float *a, int n) { float s = 0; while (n--) s += a[n]; return s; }\n")
    np.save(folder / "x.npy", np.ones((1, 3, 8, 8), np.float32))
    plant_modules(folder)


def plant_modules(folder: Path) -> None:
    """Write modules of nearly every name, each of which leaves a mark when it is executed."""
    for name in sorted(set(sys.stdlib_module_names) | set(PLANTED)):
        (folder / f"{name}.py").write_text(f"open({str(folder / MARK)!r}, 'a').write({name!r})\n")
