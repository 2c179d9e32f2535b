"""`mavcg accel build`, `run`, `simulate`, `validate`, `disassemble` and `assemble` as scripts use them, in a folder."""

import io
import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mavcg.cli.app import run


def write_model(path: Path) -> None:
    """Convolution, depthwise, residual, pool, concat and a classifier."""
    numbers = np.random.default_rng(0)

    def weights(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array((numbers.standard_normal(shape) * 0.2).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1] * 4, strides=[2, 2]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], pads=[1] * 4, group=16),
        helper.make_node("Conv", ["c2", "w3"], ["c3"]),
        helper.make_node("Add", ["c3", "r1"], ["a"]),
        helper.make_node("MaxPool", ["a"], ["p"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
        helper.make_node("Conv", ["p", "w4"], ["c4"]),
        helper.make_node("Concat", ["p", "c4"], ["cat"], axis=1),
        helper.make_node("GlobalAveragePool", ["cat"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "w5"], ["d"], transB=1),
        helper.make_node("Softmax", ["d"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 13, 11])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
        [
            weights("w1", 16, 3, 3, 3),
            weights("b1", 16),
            weights("w2", 16, 1, 3, 3),
            weights("w3", 16, 16, 1, 1),
            weights("w4", 24, 16, 1, 1),
            weights("w5", 10, 40),
        ],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), path)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with net.onnx and net.elf, built with calibration inputs."""
    folder = tmp_path_factory.mktemp("accel")
    write_model(folder / "net.onnx")
    images = np.random.default_rng(1).standard_normal((3, 3, 13, 11)).astype(np.float32)
    np.savez(folder / "images.npz", x=images)
    command = ["build", str(folder / "net.onnx"), "--target", "zu2", "--calibrate", str(folder / "images.npz")]
    command += ["--search", "none"]
    assert run(["accel", *command, "-o", str(folder / "net.elf")]) == 0
    return folder


@pytest.fixture(autouse=True)
def in_folder(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(built)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> Any:
    assert run(["accel", *arguments]) == status
    return json.loads(capsys.readouterr().out)


def test_build_reports_what_scripts_read(capsys: pytest.CaptureFixture[str]) -> None:
    report = printed(capsys, "build", "net.onnx", "--target", "zu2", "--search", "none", "-o", "n.elf", "--json")

    assert {
        "nodes",
        "embeddings",
        "groups",
        "instructions",
        "bytes",
        "predicted_cycles",
        "cpu_nodes",
        "seconds",
    } <= set(report)
    assert set(report["bytes"]) == {"code", "parameters", "features"}
    assert len(report["cpu_nodes"]) == 2  # the classifier and softmax, as in the paper
    assert sum(len(group) for group in report["groups"]) + 2 == report["nodes"] == 10
    assert "seeded" in report["calibration"]
    assert printed(capsys, "simulate", "n.elf", "--json")["cycles"] == report["predicted_cycles"]


def test_stacked_calibration_is_as_concatenated() -> None:
    """np.stack of the model's inputs has a dimension more than np.concatenate; both are stacks of images."""
    images = np.load("images.npz")["x"]
    np.savez("stacked.npz", x=images[:, None])
    command = ["build", "net.onnx", "--target", "zu2", "--search", "none", "--calibrate", "stacked.npz", "-o", "s.elf"]

    assert run(["accel", *command]) == 0
    assert Path("s.elf").read_bytes() == Path("net.elf").read_bytes()


def test_simulate_reports_and_draws(capsys: pytest.CaptureFixture[str]) -> None:
    report = printed(capsys, "simulate", "net.elf", "--json", "--timeline", "t.svg")

    assert {"cycles", "ms", "gops", "utilisation", "units", "stalls", "ddr_bytes"} <= set(report)
    assert set(report["units"]) == {"load", "save", "conv", "pool", "misc"}
    assert report["ms"] == pytest.approx(report["cycles"] / 330e3)
    assert report["gops"] / report["utilisation"] == pytest.approx(380.16)
    bars = [e for e in ET.parse("t.svg").iter() if e.tag.endswith("title")]
    assert any("conv.depthwise of c2" in (bar.text or "") for bar in bars)
    assert run(["accel", "simulate", "net.elf"]) == 0
    assert "stall, conv: waits for load" in capsys.readouterr().out


@pytest.mark.parametrize("search", ["exact", "paper", "greedy"])
def test_fused_programs_are_faster_and_right(search: str, capsys: pytest.CaptureFixture[str]) -> None:
    report = printed(capsys, "build", "net.onnx", "--target", "zu2", "--search", search, "-o", "f.elf", "--json")

    assert report["embeddings"] > 0
    assert any(len(group) > 1 for group in report["groups"])
    assert report["predicted_cycles"] < printed(capsys, "simulate", "net.elf", "--json")["cycles"]
    assert printed(capsys, "validate", "f.elf", "--model", "net.onnx", "--json")["mismatches"] == 0


def test_validate_agrees(capsys: pytest.CaptureFixture[str]) -> None:
    output_text = printed(capsys, "validate", "net.elf", "--model", "net.onnx", "--json")

    assert (output_text["layers"], output_text["mismatches"]) == (8, 0)


def test_validate_finds_a_wrong_bit(capsys: pytest.CaptureFixture[str], built: Path) -> None:
    """One bit of one weight differs: exit status 1, and the layer is named."""
    from dataclasses import replace

    from mavcg.accelerators.image.elf_file import read_elf, write_elf

    program = read_elf(Path("net.elf"))
    changed = bytearray(program.parameters)
    changed[144] ^= 64  # output channel 0, input channel 0, behind the word with the entries
    write_elf(replace(program, parameters=bytes(changed)), Path("wrong.elf"))

    output_text = printed(capsys, "validate", "wrong.elf", "--model", "net.onnx", "--json", status=1)

    assert output_text["mismatches"] >= 1
    assert output_text["different"][0]["node"] == "c1"


def test_disassemble_and_assemble_give_the_same_bytes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["accel", "disassemble", "net.elf"]) == 0
    text = capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert run(["accel", "assemble", "-", "-o", "again.elf"]) == 0

    assert Path("again.elf").read_bytes() == Path("net.elf").read_bytes()


def test_run_takes_the_models_order_and_integers(capsys: pytest.CaptureFixture[str]) -> None:
    image = np.random.default_rng(2).standard_normal((1, 3, 13, 11)).astype(np.float32)
    np.save("x.npy", image)
    assert run(["accel", "run", "net.elf", "--input", "x.npy", "--accelerator", "-o", "y.npz"]) == 0
    real = np.load("y.npz")["g"]
    from mavcg.accelerators.fixed_point import to_integers
    from mavcg.accelerators.image.elf_file import read_elf

    program = read_elf(Path("net.elf"))
    np.save("q.npy", to_integers(image.transpose(0, 2, 3, 1), program.tensor("x").radix))
    assert run(["accel", "run", "net.elf", "--input", "x=q.npy", "-o", "z.npz", "--integers"]) == 0
    integers = np.load("z.npz")["g"]

    assert integers.dtype == np.int8 and integers.any()
    assert np.array_equal(real, integers * np.float32(2.0 ** -program.tensor("g").radix))
    capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["build", "net.onnx", "--target", "zu3", "-o", "n.elf"], "--target zu3: no such target"),
        (["build", "net.onnx", "--target", "zu2", "--search", "best", "-o", "n.elf"], "--search best"),
        (["build", "no.onnx", "--target", "zu2", "-o", "n.elf"], "no.onnx"),
        (["build", "net.onnx", "--target", "zu2", "--calibrate", "x.txt", "-o", "n.elf"], "--calibrate x.txt"),
        (["build", "net.onnx", "--target", "zu2", "-o", "no/n.elf"], "the folder no does not exist"),
        (["simulate", "net.onnx"], "not a 64-bit little-endian ELF file"),
        (["simulate", "net.elf", "--timeline", "t.gif"], "--timeline t.gif"),
        (["run", "net.elf", "--accelerator"], "--input: no array for x"),
        (["run", "net.elf", "--accelerator", "--input", "net.onnx"], "--input net.onnx: no array"),
        (["run", "net.elf", "--accelerator", "--input", "y=x.npy"], "no such input|no array could be read"),
        (["assemble", "net.onnx", "-o", "n.elf"], "is not text|net.onnx:1"),
        (["disassemble", "missing.elf"], r"missing.elf: cannot be read \(No such file"),
        (["simulate", "."], r"cannot be read \(Is a directory\)"),
        (["assemble", "missing.s", "-o", "n.elf"], r"missing.s: cannot be read \(No such file"),
    ],
)
def test_bad_arguments_are_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("x.txt").write_text("no array")
    assert run(["accel", *arguments]) == 2
    import re

    assert re.search(message, capsys.readouterr().err)
    assert not Path("n2.elf").exists()


def test_validate_with_another_model_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    write_model(Path("other.onnx"))
    model = onnx.load("other.onnx")
    del model.graph.node[6:]
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info("a", TensorProto.FLOAT, [1, 16, 7, 6]))
    onnx.save(model, "other.onnx")

    assert run(["accel", "validate", "net.elf", "--model", "other.onnx"]) == 2
    assert "give the model that it was built from" in capsys.readouterr().err


def test_a_network_that_does_not_fit_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    import mavcg.profiles as profiles

    text = (Path(profiles.__file__).parent / "isa_targets" / "zu2.toml").read_text()
    text = text.replace("weight_bytes = { value = 196608", "weight_bytes = { value = 288")
    Path("tiny.toml").write_text(text.replace('name = "zu2"', 'name = "tiny"'))

    assert run(["accel", "build", "net.onnx", "--target", "./tiny.toml", "--search", "none", "-o", "t.elf"]) == 2
    assert "does not fit on chip" in capsys.readouterr().err
    assert not Path("t.elf").exists()
