"""`mavcg build MODEL --partial --shape x=1x1..160x24`: parts of any length, called by ONNX Runtime and LiteRT."""

import contextlib
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.objects.elf import exported_symbols
from tests.mavcg.cli.in_process import build_in

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from tests.mavcg.choose.lengths.bounded_models import Tokens  # noqa: E402

WIDTH, MOST = 24, 160
LENGTHS = (MOST, 1, 2, 3, 7, 64, MOST - 1, 5)


def foreign(net: Tokens) -> None:
    """A sequence of the tensor and back, which mavcg has not: the tensor as it is."""
    made = net.add("SequenceConstruct", net.last)
    net.add("SequenceAt", made, net.constant(np.array(0)))


def by_the_logarithm(net: Tokens) -> None:
    """Multiply by the logarithm of the length, which is another constant at each."""
    last, number = net.last, net.add("Cast", net.add("Shape", net.last), to=onnx.TensorProto.FLOAT)
    length = net.add("Gather", number, net.constant(np.array(1)))
    net.add("Mul", last, net.add("Log", net.add("Add", length, net.constant(np.array(2, np.float32)))))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, cores: tuple[str, str]) -> tuple[Path, Any]:
    """m.onnx, with a foreign operator between two parts and a number of the length; its library and document."""
    folder = tmp_path_factory.mktemp("lengths")
    net = Tokens(WIDTH)
    net.linear(48)
    net.norm()
    foreign(net)
    net.above_mean()
    net.linear(WIDTH)
    by_the_logarithm(net)
    net.save(folder / "m.onnx")
    options = ["--partial", "--shape", f"x=1x1..{MOST}x{WIDTH}", "--cores", cores[1], "-o", "libm.so", "--json"]
    return folder, json.loads(build_in(folder, "m.onnx", *options, "--also", "m.mavcg.onnx"))


def inputs_of(length: int) -> Any:
    return np.random.default_rng(length).standard_normal((1, length, WIDTH)).astype(np.float32)


def brackets(*shape: int) -> str:
    return f"[{'x'.join(map(str, shape))}]"


def refusal(tokens: int) -> str:
    """The operator's own message; onnxruntime refuses none of these shapes before it."""
    given, built = re.escape(brackets(1, tokens, WIDTH)), re.escape(brackets(1, MOST, WIDTH))
    return rf"mavcg: m_0: x has shape {given}, the library was built for {built} with tokens of 1 to {MOST} in place of"


def check(have: Any, want: Any) -> None:
    assert have.shape == want.shape and np.abs(have - want).max() <= 1e-4 * np.abs(want).max()


def test_each_part_is_one_for_all_lengths(built: tuple[Path, Any], mavcg: Any) -> None:
    folder, document = built
    assert [each["dimensions"] for each in document["subgraphs"]] == [{"tokens": [1, MOST]}] * 2
    assert document["macs_share"] == 1.0
    left = {each["op"]: each["why"] for each in document["left"]}
    assert set(left) == {"SequenceConstruct", "SequenceAt", "Mul"}
    assert "bounded dimension tokens (1 to 160)" in left["Mul"]
    notes = json.loads(mavcg("inspect", folder / "libm.so", "--json").stdout)["subgraphs"]
    assert [note["dimensions"] for note in notes] == [{"tokens": [1, MOST]}] * 2
    assert "RegisterCustomOps" in exported_symbols(folder / "libm.so")
    free = onnx.load(folder / "m.mavcg.onnx").graph.input[0].type.tensor_type.shape.dim[1]
    assert free.dim_param == "tokens"


@pytest.mark.parametrize("threads", ["1", "3"])
def test_the_operators_take_every_length(built: tuple[Path, Any], threads: str) -> None:
    folder, _ = built
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(folder / "libm.so"))
    options.add_session_config_entry("mavcg.threads", threads)
    session = onnxruntime.InferenceSession(str(folder / "m.mavcg.onnx"), options)
    reference = onnxruntime.InferenceSession(str(folder / "m.onnx"))
    for length in LENGTHS:
        x = {"x": inputs_of(length)}
        check(session.run(None, x)[0], reference.run(None, x)[0])


def test_other_shapes_are_an_error_of_the_run(built: tuple[Path, Any]) -> None:
    folder, _ = built
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.register_custom_ops_library(str(folder / "libm.so"))
    session = onnxruntime.InferenceSession(str(folder / "m.mavcg.onnx"), options)
    before = session.run(None, {"x": inputs_of(7)})[0]
    for wrong in (MOST + 1, 0):
        with pytest.raises(Exception, match=refusal(wrong)):
            session.run(None, {"x": np.zeros((1, wrong, WIDTH), np.float32)})
    assert session.run(None, {"x": inputs_of(7)})[0].tobytes() == before.tobytes()


def test_the_provider_takes_every_length_of_the_unchanged_model(built: tuple[Path, Any], capfd: Any) -> None:
    folder, _ = built
    name = f"lengths-{os.getpid()}"
    onnxruntime.register_execution_provider_library(name, str(folder / "libm.so"))
    try:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.add_provider_for_devices([d for d in onnxruntime.get_ep_devices() if d.ep_name == name], {})
        session = onnxruntime.InferenceSession(str(folder / "m.onnx"), options)
        assert "libm.so: 2 of 2 subgraphs" in capfd.readouterr().err
        reference = onnxruntime.InferenceSession(str(folder / "m.onnx"))
        for length in LENGTHS:
            x = {"x": inputs_of(length)}
            check(session.run(None, x)[0], reference.run(None, x)[0])
        for wrong in (MOST + 1, 0):
            with pytest.raises(Exception, match=refusal(wrong)):
                session.run(None, {"x": np.zeros((1, wrong, WIDTH), np.float32)})
        x = {"x": inputs_of(MOST)}
        check(session.run(None, x)[0], reference.run(None, x)[0])
        del session
    finally:
        onnxruntime.unregister_execution_provider_library(name)


@pytest.mark.long
def test_parts_take_the_lengths_of_two_dimensions(here: Path, cores: tuple[str, str]) -> None:
    """Tokens of a batch, with a mask of its own, which the second part alone reads."""
    net = Tokens(WIDTH)
    net.linear(48)
    foreign(net)
    net.attention()
    value = onnx.helper.make_tensor_value_info
    net.add("Mul", net.last, "mask")
    net.linear(WIDTH)
    net.save(here / "m.onnx", outer=("batch", "tokens"))
    model = onnx.load(here / "m.onnx")
    model.graph.input.append(value("mask", 1, ["batch", "tokens", 1]))
    onnx.save(model, here / "m.onnx")
    shapes = ["--shape", f"x=1..3x1..40x{WIDTH}", "--shape", "mask=1..3x1..40x1"]
    document = json.loads(build_in(here, "m.onnx", "--partial", *shapes, "--cores", cores[1], "--json"))
    assert [each["dimensions"] for each in document["subgraphs"]] == [{"batch": [1, 3], "tokens": [1, 40]}] * 2
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(here / "libm.so"))
    session = onnxruntime.InferenceSession(str(here / "m.mavcg.onnx"), options)
    reference = onnxruntime.InferenceSession(str(here / "m.onnx"))
    rng = np.random.default_rng(0)
    for batch, tokens in ((3, 40), (1, 1), (2, 7), (3, 1), (1, 40)):
        shape = (batch, tokens)
        x = {"x": rng.standard_normal((*shape, WIDTH)), "mask": rng.integers(0, 2, (*shape, 1))}
        arrays = {name: array.astype(np.float32) for name, array in x.items()}
        wanted = reference.run(None, arrays)[0]
        check(session.run(None, arrays)[0], wanted)
        for of_x, of_mask in hostile_shapes(batch, tokens):
            first = f"mask has shape {brackets(*of_mask, 1)}"  # of the second part, as the first has a run of its own
            if not (1 <= of_x[0] <= 3 and 1 <= of_x[1] <= 40):
                first = f"x has shape {brackets(*of_x, WIDTH)}"
            with pytest.raises(Exception, match=f"mavcg: m_.: {re.escape(first)}, the library was built for"):
                session.run(None, {"x": np.zeros((*of_x, WIDTH), "f4"), "mask": np.zeros((*of_mask, 1), "f4")})
        check(session.run(None, arrays)[0], wanted)


def hostile_shapes(batch: int, tokens: int) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Batch and tokens of x and of a mask that do not fit each other or the bounds; without elements the products of
    some overflow."""
    given, huge = (batch, tokens), (1 << 31, 1 << 32, 1 << 33)
    disagree = [(given, (batch, tokens + 1)), (given, (batch + 1, tokens)), ((batch + 1, tokens), given)]
    nothing = [(given, (0, tokens)), ((0, 0), (0, 0)), ((0, tokens), (0, tokens)), ((batch, 0), (batch, 0))]
    return [*disagree, *nothing, *(((0, n), (0, n)) for n in huge), *(((n, 0), (n, 0)) for n in huge)]


@pytest.mark.long
def test_a_length_that_the_part_does_not_see_stays_with_the_runtime(here: Path, cores: tuple[str, str]) -> None:
    """Tokens repeated as often as there are of another input: its length, which is not of the part's own input."""
    net = Tokens(WIDTH)
    net.linear(WIDTH)
    net.linear(WIDTH)
    net.add("Shape", "other")
    net.add("Expand", "t4", net.last)
    net.save(here / "m.onnx", outer=(1, 1))
    model = onnx.load(here / "m.onnx")
    model.graph.input.append(onnx.helper.make_tensor_value_info("other", 1, [1, "n", WIDTH]))
    onnx.save(model, here / "m.onnx")
    words = ["m.onnx", "--partial", "--shape", f"other=1x2..9x{WIDTH}", "--cores", cores[1], "--json"]
    document = json.loads(build_in(here, *words))
    (part,) = document["subgraphs"]
    assert part["dimensions"] == {} and part["nodes"] == 4
    (why,) = [left["why"] for left in document["left"] if left["op"] == "Expand"]
    assert "it depends on the dimension n (2 to 9), which no input of its part has" in why
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(here / "libm.so"))
    session = onnxruntime.InferenceSession(str(here / "m.mavcg.onnx"), options)
    reference = onnxruntime.InferenceSession(str(here / "m.onnx"))
    for n in (2, 9, 5):
        arrays = {"x": inputs_of(1), "other": np.zeros((1, n, WIDTH), np.float32)}
        check(session.run(None, arrays)[0], reference.run(None, arrays)[0])


def test_nothing_that_takes_any_length_is_refused_by_name(mavcg: Any, here: Path, cores: tuple[str, str]) -> None:
    net = Tokens(WIDTH)
    by_the_logarithm(net)
    net.save(here / "m.onnx")
    words = ["--partial", "--min-share", "0", "--shape", f"x=1x1..9x{WIDTH}", "--cores", cores[1]]
    ended = mavcg("build", "m.onnx", *words)
    assert ended.status == 2 and "no subgraph can be built (1 Mul: " in ended.stderr
    assert "give a list of lengths in its place, such as 1,9" in ended.stderr
    assert [path.name for path in here.iterdir()] == ["m.onnx"]


@pytest.mark.long
def test_the_delegate_takes_every_length(here: Path, cores: tuple[str, str], capfd: Any) -> None:
    """The interpreter's present size, within the bounds; another one is the runtime's."""
    pytest.importorskip("ai_edge_litert.interpreter")
    from tests.mavcg.cli.litert_models import X, chain, delegated, invoke, near
    from tests.mavcg.importers.tflite.conftest import Writer, litert

    (here / "m.tflite").write_bytes(data := chain(Writer()))
    words = ["m.tflite", "--partial", "--shape", "x=1..4x8x8x6", "--cores", cores[1], "-o", "libm.so", "--json"]
    document = json.loads(build_in(here, *words))
    assert [each["dimensions"] for each in document["subgraphs"]] == [{"x.0": [1, 4]}] and document["left"] == []
    (first,), interpreter = delegated(here / "m.tflite", X)
    assert near(first, litert(data, [X])[0]) and "1 of 1 subgraphs with 2 of 2" in capfd.readouterr().err
    index = interpreter.get_input_details()[0]["index"]
    for batch, taken in ((3, 1), (1, 1), (4, 1), (2, 1), (5, 0)):
        interpreter.resize_tensor_input(index, (batch, 8, 8, 6))
        interpreter.allocate_tensors()
        x = np.concatenate([X * (i + 1) for i in range(batch)])
        assert near(invoke(interpreter, x)[0], litert(data, [x])[0])
        assert f"{taken} of 1 subgraphs" in capfd.readouterr().err
    for batch in (0, -1, (1 << 31) - 1):  # nothing, and bytes that overflow: the runtime's, with its results or errors
        interpreter.resize_tensor_input(index, (2, 8, 8, 6))
        interpreter.allocate_tensors()
        capfd.readouterr()
        with contextlib.suppress(RuntimeError, ValueError):
            interpreter.resize_tensor_input(index, (batch, 8, 8, 6))
            interpreter.allocate_tensors()
        assert "1 of 1 subgraphs" not in capfd.readouterr().err
    interpreter.resize_tensor_input(index, (2, 8, 8, 6))
    interpreter.allocate_tensors()
    x = np.concatenate([X, X * 2])
    assert near(invoke(interpreter, x)[0], litert(data, [x])[0]) and "1 of 1" in capfd.readouterr().err
