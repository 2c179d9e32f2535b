"""Networks that the accelerator computes in part: CPU libraries around its segments, one host for all."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from mavcg.accelerators.fixed_point import evaluate
from mavcg.accelerators.float_reference import arrange_inputs
from mavcg.accelerators.image.elf_file import read_elf
from mavcg.accelerators.load import load_xgraph
from mavcg.accelerators.quantise import with_radices
from mavcg.accelerators.simulator.cycles import simulate
from mavcg.accelerators.validate import integer_images
from mavcg.cli.app import run
from mavcg.profiles.folders import HERE


def write_model(path: Path, images: int | str = 1) -> None:
    """Sin (CPU), convolutions, Sin (CPU), a convolution and a pool, a classifier (CPU).

    images: size of the batch, a text to leave it to the build.
    """
    numbers = np.random.default_rng(3)

    def weights(name: str, *shape: int) -> onnx.TensorProto:
        scale = math.sqrt(max(1, math.prod(shape[1:])))
        return numpy_helper.from_array((numbers.standard_normal(shape) / scale).astype(np.float32), name)

    nodes = [
        helper.make_node("Sin", ["x"], ["x0"]),
        helper.make_node("Conv", ["x0", "w1", "b1"], ["y1"], pads=[1] * 4, strides=[2, 2]),
        helper.make_node("Relu", ["y1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["y2"], pads=[1] * 4),
        helper.make_node("Sin", ["y2"], ["r2"]),
        helper.make_node("Conv", ["r2", "w3", "b3"], ["y3"]),
        helper.make_node("GlobalAveragePool", ["y3"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "w4", "b4"], ["l"], transB=1),
        helper.make_node("Softmax", ["l"], ["p"]),
    ]
    graph = helper.make_graph(
        nodes,
        "mixed",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [images, 3, 20, 20])],
        [helper.make_tensor_value_info("p", TensorProto.FLOAT, [images, 10])],
        [
            weights("w1", 16, 3, 3, 3),
            weights("b1", 16),
            weights("w2", 24, 16, 3, 3),
            weights("b2", 24),
            weights("w3", 24, 24, 1, 1),
            weights("b3", 24),
            weights("w4", 10, 24),
            weights("b4", 10),
        ],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with mixed.onnx and mixed.elf with its CPU parts for this machine."""
    folder = tmp_path_factory.mktemp("mixed")
    write_model(folder / "mixed.onnx")
    write_model(folder / "any.onnx", "n")
    # Without the CPU's figures even small segments stay on the accelerator.
    lines = (HERE / "isa_targets" / "zu2.toml").read_text().splitlines()
    plain = folder / "plain.toml"
    plain.write_text("\n".join(line for line in lines if not line.startswith("host_")))
    command = ["build", str(folder / "mixed.onnx"), "--target", str(plain), "--board", "host"]
    assert run(["accel", *command, "-o", str(folder / "mixed.elf")]) == 0
    return folder


@pytest.fixture(autouse=True)
def in_folder(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(built)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert run(["accel", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_parts_lie_beside_the_program() -> None:
    program = read_elf(Path("mixed.elf"))

    assert program.libraries == ("libmixed_before.so", "libmixed_1.so", "libmixed_after.so")
    assert all(Path(name).is_file() for name in program.libraries)
    assert [part.nodes for part in program.host.cpu] == [("x0",), ("y2.sin",), ("l", "p")]
    assert [segment.nodes for segment in program.segments] == [("y1", "y2"), ("y3", "g")]


def test_a_small_segment_goes_to_the_cpu_where_its_hand_over_costs_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("mixed.onnx", "-o", str(tmp_path / "m.elf"), "--json")
    apart, weighed = (printed(capsys, "build", *given, "--target", name) for name in ("./plain.toml", "zu2"))

    assert [len(s["nodes"]) for s in apart["segments"]] == [2, 2] and apart["accelerator_share"] == 1.0
    assert weighed["segments"] == apart["segments"][:1]
    assert weighed["accelerator_share"] == pytest.approx(
        apart["segments"][0]["operations"] / sum(s["operations"] for s in apart["segments"])
    )
    assert (apart["hand_over"]["calls"], weighed["hand_over"]["calls"]) == (2, 1)
    assert printed(capsys, "validate", given[2], "--model", "mixed.onnx", "--json")["mismatches"] == 0


def test_all_segments_are_simulated_and_compared_with_the_reference(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "validate", "mixed.elf", "--model", "mixed.onnx", "--json")["mismatches"] == 0
    simulated = printed(capsys, "simulate", "mixed.elf", "--json")
    assert simulated["cycles"] == sum(simulate(job).cycles for job in read_elf(Path("mixed.elf")).jobs())


def test_a_run_computes_the_whole_network(capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.default_rng(0).standard_normal((1, 3, 20, 20)).astype(np.float32)
    np.save("x.npy", x)

    assert printed(capsys, "run", "mixed.elf", "--input", "x.npy", "-o", "y.npz", "--json")["computed"] == "network"

    program = read_elf(Path("mixed.elf"))
    graph = with_radices(load_xgraph("mixed.onnx", program.target, {}), program.radices, "mixed.elf")
    images = integer_images(graph, arrange_inputs(graph, {"x": x}))
    made = np.load("y.npz")["p"]
    assert np.abs(made - evaluate(graph, images, program.target.rounding)["p"]).max() < 1e-6
    (real,) = onnxruntime.InferenceSession("mixed.onnx").run(None, {"x": x})
    assert made.argmax() == real.argmax() and np.abs(made - real).max() < 0.02  # 8 bits


@pytest.mark.parametrize("images", [2, 5])
def test_a_batch_is_a_program_of_its_images(images: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--shape sets the batch; the host side in C runs all images by the segments and the CPU's parts, bit by bit."""
    path, shape = str(tmp_path / "batch.elf"), ("--shape", f"x={images}x3x20x20")
    x = np.random.default_rng(0).standard_normal((images, 3, 20, 20)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)

    report = printed(
        capsys, "build", "any.onnx", *shape, "--target", "plain.toml", "--board", "host", "-o", path, "--json"
    )
    checked = printed(capsys, "validate", path, "--model", "any.onnx", *shape, "--json")
    printed(capsys, "run", path, "--input", str(tmp_path / "x.npy"), "-o", str(tmp_path / "y.npz"), "--json")
    simulated = printed(capsys, "simulate", path, "--json")

    assert (report["images"], simulated["images"]) == (images, images)
    assert len(report["segments"]) == 2 and (checked["layers"], checked["mismatches"]) == (4, 0)
    alone = printed(capsys, "simulate", "mixed.elf", "--json")
    assert simulated["ddr_bytes_per_image"] < 0.8 * alone["ddr_bytes_per_image"] == 0.8 * alone["ddr_bytes"]
    program, made = read_elf(Path(path)), np.load(tmp_path / "y.npz")["p"]
    graph = with_radices(load_xgraph("any.onnx", program.target, {"x": x.shape}), program.radices, path)
    given = integer_images(graph, arrange_inputs(graph, {"x": x}))
    assert np.abs(made - evaluate(graph, given, program.target.rounding)["p"]).max() < 1e-6
    (real,) = onnxruntime.InferenceSession("any.onnx").run(None, {"x": x})
    assert made.shape == (images, 10) and np.abs(made - real).max() < 0.02  # 8 bits


def test_without_its_libraries_a_run_is_refused_and_the_accelerator_runs_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copyfile("mixed.elf", tmp_path / "mixed.elf")
    monkeypatch.chdir(tmp_path)

    assert run(["accel", "run", "mixed.elf", "--seed", "0", "-o", "y.npz", "--json"]) == 2
    output = capsys.readouterr()
    assert output.out == "" and not Path("y.npz").exists()
    assert "libmixed_before.so is not there; it belongs beside the program" in output.err

    assert run(["accel", "run", "mixed.elf", "--seed", "0", "--accelerator", "--json"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["computed"] == "accelerator"
    assert "--accelerator: shows the accelerator's outputs; the CPU's 4 nodes are not computed" in output.err


@pytest.mark.long
def test_a_net_that_ends_on_the_cpu_needs_its_library(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    numbers = np.random.default_rng(5)
    w = numpy_helper.from_array(numbers.standard_normal((7, 3, 3, 3)).astype(np.float32) / 5, "w")
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4), helper.make_node("Sin", ["c"], ["y"])]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "conv", [value("x", 1, [1, 3, 10, 12])], [value("y", 1, [1, 7, 10, 12])], [w])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), "conv.onnx")
    x = numbers.standard_normal((1, 3, 10, 12)).astype(np.float32)
    np.save("x.npy", x)
    (real,) = onnxruntime.InferenceSession("conv.onnx").run(None, {"x": x})
    command = ["accel", "build", "conv.onnx", "--target", "zu2", "--search", "none", "-o", "conv.elf"]
    asked = ["accel", "run", "conv.elf", "--input", "x.npy", "-o", "y.npz"]

    assert run(command) == 0
    assert run(asked) == 2
    assert "no library was built for it; build it with --board" in capsys.readouterr().err
    assert not Path("y.npz").exists()

    assert run([*command, "--board", "host"]) == 0
    assert run(asked) == 0
    (made,) = np.load("y.npz").values()
    assert made.shape == real.shape and np.abs(made - real).max() < 0.1  # 8 bits


@pytest.mark.long
def test_parts_for_other_processors_are_not_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["build", "mixed.onnx", "--target", "zu2", "--search", "none", "--cores", "cortex-a53"]
    assert run(["accel", *command, "-o", "arm.elf"]) == 0
    capsys.readouterr()

    assert run(["accel", "run", "arm.elf", "--seed", "0"]) == 2

    assert "libarm_before.so is for other processors than this" in capsys.readouterr().err


def test_another_programs_library_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("mixed.elf", "libmixed_before.so", "libmixed_after.so"):
        shutil.copyfile(name, tmp_path / name)
    shutil.copyfile("libmixed_before.so", tmp_path / "libmixed_1.so")

    assert run(["accel", "run", str(tmp_path / "mixed.elf"), "--seed", "0"]) == 2

    assert "its inputs and outputs are not those of this program" in capsys.readouterr().err
