"""Whole programs run in Python, on VTA and beside the host side in C: bits of the reference, in segments."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.accelerators.fixed_point import evaluate, reals_of
from mavcg.accelerators.host.runtime import DeviceProgram
from mavcg.accelerators.host.simulated_network import run_network
from mavcg.accelerators.image.elf_file import read_elf
from mavcg.accelerators.load import load_xgraph
from mavcg.accelerators.quantise import with_radices
from mavcg.accelerators.validate import integer_images
from mavcg.graph import Array

Mavcg = Callable[..., Any]
SHAPE = (1, 3, 20, 12)


def write_leaky(path: Path) -> None:
    """Write three convolutions, of which VTA leaves the one with a leaky ReLU to the CPU, and a resize at the end."""
    import onnx
    from onnx import helper, numpy_helper

    numbers = np.random.default_rng(8)
    shapes = {"w0": (16, 3, 3, 3), "w1": (16, 16, 1, 1), "w2": (16, 16, 3, 3)}
    weights = {name: numbers.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    weights["scales"] = np.array([1, 1, 2, 2], np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w1"], ["c"]),
        helper.make_node("LeakyRelu", ["c"], ["d"], alpha=0.125),
        helper.make_node("Conv", ["d", "w2"], ["e"], pads=[1, 1, 1, 1]),
        helper.make_node(
            "Resize",
            ["e", "", "scales"],
            ["y"],
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        ),
    ]
    graph = helper.make_graph(
        nodes,
        "leaky",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 16, 40, 24])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def built(folder: Path, mavcg: Mavcg, target: str) -> dict[str, Any]:
    pytest.importorskip("onnx")
    write_leaky(folder / "leaky.onnx")
    words = ("--target", target, "--search", "greedy", "--board", "host", "-o", folder / "p.elf", "--json")
    ended = mavcg("accel", "build", folder / "leaky.onnx", *words)
    assert ended.status == 0, ended.stderr
    document: dict[str, Any] = json.loads(ended.stdout)
    return document


def image() -> Array:
    return np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)


@pytest.mark.long
def test_vta_runs_with_the_cpus_parts_between_its_segments(tmp_path: Path, mavcg: Mavcg) -> None:
    """The file's verb gives the reference's bits, which `validate` compares tile by tile."""
    document = built(tmp_path, mavcg, "vta")
    assert len(document["segments"]) == 2 and 0.5 < document["accelerator_share"] < 1
    assert {"c", "y"} <= set(document["cpu_nodes"]) and len(document["cpu_libraries"]) == 2
    np.save(tmp_path / "x.npy", image())
    ended = mavcg("accel", "run", tmp_path / "p.elf", "--input", tmp_path / "x.npy", "-o", tmp_path / "y.npz")
    assert ended.status == 0, ended.stderr
    program = read_elf(tmp_path / "p.elf")
    graph = with_radices(load_xgraph(str(tmp_path / "leaky.onnx"), program.target, {}), program.radices, "p.elf")
    inputs = {program.host.inputs[0]: image().transpose(0, 2, 3, 1)}
    (output,) = program.host.outputs
    reference = evaluate(graph, integer_images(graph, inputs), program.target.rounding)[output.tensor]
    expected = output.in_its_order(reals_of(program.host.tensor(output.tensor), reference))
    assert np.array_equal(np.load(tmp_path / "y.npz")[output.name], expected) and np.ptp(expected) > 0
    ended = mavcg("accel", "validate", tmp_path / "p.elf", "--model", tmp_path / "leaky.onnx", "--json")
    assert ended.status == 0 and json.loads(ended.stdout)["mismatches"] == 0
    ended = mavcg("accel", "run", tmp_path / "p.elf", "--seed", "0", "--driver", tmp_path / "p.elf")
    assert ended.status == 2 and "the host side in C drives mavcg's own accelerators" in ended.stderr


@pytest.mark.long
def test_the_host_side_in_c_has_the_same_outputs(tmp_path: Path, mavcg: Mavcg) -> None:
    built(tmp_path, mavcg, "small")
    program = read_elf(tmp_path / "p.elf")
    inputs = {program.host.inputs[0]: image()}
    with DeviceProgram(tmp_path / "p.elf") as device:
        expected = device.run(inputs)
    made = run_network(program, tmp_path / "p.elf", inputs)
    assert list(made) == list(expected)
    for name, array in made.items():
        assert np.array_equal(array, expected[name]) and np.ptp(array) > 0
