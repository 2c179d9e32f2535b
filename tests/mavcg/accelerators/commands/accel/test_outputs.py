"""Outputs of `mavcg accel run` have the names and shapes of the model's, whatever operator comes last."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from mavcg.cli.app import run

POOL = helper.make_node("GlobalAveragePool", ["c"], ["p"])
LAST = helper.make_node("Transpose", ["c"], ["t"], perm=[0, 2, 3, 1])
# Operators after a convolution that makes c, [1, 4, 6, 5], and the shapes of the outputs.
ENDS: dict[str, tuple[list[onnx.NodeProto], dict[str, list[int]]]] = {
    "image": ([], {"c": [1, 4, 6, 5]}),
    "an input too": ([], {"c": [1, 4, 6, 5], "x": [1, 3, 6, 5]}),
    "transpose": ([helper.make_node("Transpose", ["c"], ["y"], "moved", perm=[0, 2, 3, 1])], {"y": [1, 6, 5, 4]}),
    "flatten": ([POOL, helper.make_node("Flatten", ["p"], ["y"], name="flat")], {"y": [1, 4]}),
    "squeeze": ([POOL, helper.make_node("Squeeze", ["p", "axes"], ["y"])], {"y": [1, 4]}),
    "reshape": ([LAST, helper.make_node("Reshape", ["t", "lines"], ["y"])], {"y": [30, 4]}),
    "two of one": ([LAST, helper.make_node("Flatten", ["t"], ["y"])], {"t": [1, 6, 5, 4], "y": [1, 120]}),
    "a name of others": ([POOL, helper.make_node("Flatten", ["p"], ["[red]\x1b[1m y"])], {"[red]\x1b[1m y": [1, 4]}),
}
ON_CPU = {
    "flatten": ([helper.make_node("Flatten", ["c"], ["y"])], {"y": [1, 120]}),
    "transpose": (
        [LAST, helper.make_node("Sin", ["t"], ["s"]), helper.make_node("Transpose", ["s"], ["y"], perm=[2, 0, 1, 3])],
        {"y": [5, 1, 6, 4]},
    ),
}


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def checked_results(nodes: list[onnx.NodeProto], outputs: dict[str, list[int]], *options: str) -> dict[str, np.ndarray]:
    """Build a network for the accelerator, run it, compare it with onnxruntime, and return its outputs."""
    numbers = np.random.default_rng(7)
    weights = numbers.standard_normal((4, 3, 3, 3)).astype(np.float32) / 5
    constants = {"w": weights, "axes": np.array([2, 3]), "lines": np.array([30, 4])}
    read = {name for node in nodes for name in node.input} | {"w"}
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["c"], name="conv0", pads=[1] * 4), *nodes],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 6, 5])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in constants.items() if name in read],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), "net.onnx")
    x = numbers.standard_normal((1, 3, 6, 5)).astype(np.float32)
    np.save("x.npy", x)
    np.savez("some.npz", x=x)

    command = ["build", "net.onnx", "--target", "zu2", "--search", "none", "--calibrate", "some.npz", *options]
    assert run(["accel", *command, "-o", "net.elf"]) == 0
    assert run(["accel", "run", "net.elf", "--input", "x.npy", "-o", "y.npz"]) == 0

    made = dict(np.load("y.npz"))
    session = onnxruntime.InferenceSession("net.onnx")
    expected = dict(zip((o.name for o in session.get_outputs()), session.run(None, {"x": x}), strict=True))
    assert {name: array.shape for name, array in made.items()} == {name: a.shape for name, a in expected.items()}
    for name, array in made.items():
        assert np.abs(array - expected[name]).max() < 0.05, name  # 8 bits
    return made


@pytest.mark.parametrize("end", ENDS)
def test_outputs_are_the_models(end: str, capsys: pytest.CaptureFixture[str]) -> None:
    checked_results(*ENDS[end])

    assert "\x1b" not in capsys.readouterr().out


def test_the_accelerators_own_outputs_keep_their_names_and_shapes() -> None:
    checked_results(*ENDS["flatten"])

    assert run(["accel", "run", "net.elf", "--input", "x.npy", "--accelerator", "-o", "inner.npz"]) == 0

    assert {name: array.shape for name, array in np.load("inner.npz").items()} == {"p": (1, 1, 1, 4)}


@pytest.mark.sample(1)
@pytest.mark.parametrize("end", ON_CPU)
def test_outputs_of_cpu_parts_are_the_models(end: str) -> None:
    checked_results(*ON_CPU[end], "--board", "host")


@pytest.mark.parametrize("end", ["image", "two of one"])
def test_the_host_side_in_c_gives_the_same_outputs(end: str) -> None:
    from mavcg.accelerators.host.runtime import DeviceProgram

    made = checked_results(*ENDS[end])

    with DeviceProgram(Path("net.elf")) as device:
        assert device.outputs == {name: tuple(dims) for name, dims in ENDS[end][1].items()}
        again = device.run({"x": np.load("x.npy")})
    assert all(np.array_equal(again[name], array) for name, array in made.items())
