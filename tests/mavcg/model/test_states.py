"""`mavcg build --state` as users meet it: docs/states.md, step by step; sequences against onnxruntime; refusals."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mavcg as package
from mavcg.toolchain.target import host_target

Mavcg = Callable[..., Any]
PAGE = Path(__file__).parents[3] / "docs" / "states.md"
GENERIC = ("--target", host_target().zig_name)  # one version: the kernels of a core are tested elsewhere


def example() -> tuple[str, str, str]:
    """The page's example: what writes the model, the command, what runs the library."""
    section = PAGE.read_text().partition("## An example")[2].partition("## The option")[0]
    make, use = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    (command,) = re.findall(r"^    mavcg (build .*)$", section, re.MULTILINE)
    return make, command, use


def test_the_page_s_example(here: Path, mavcg: Mavcg) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    make, command, use = example()
    names: dict[str, Any] = {}
    exec(make, names)
    ended = mavcg(*[word.strip("'") for word in command.replace("--board host", " ".join(GENERIC)).split()], "--json")
    assert ended.status == 0, ended.stderr
    document = json.loads(ended.stdout)
    assert [t["name"] for t in document["inputs"]] == ["x"] and [t["name"] for t in document["outputs"]] == ["y"]
    assert document["states"] == [{"name": "h", "type": "f32[1,1,16]", "in_place": True}]
    assert document["state_bytes"] == document["memory"]["state_bytes"] == 64
    exec(use, names)

    session = onnxruntime.InferenceSession("gru.onnx", providers=["CPUExecutionProvider"])
    with package.load("libgru.so", threads=2) as model:
        assert (model.state_bytes, [state.name for state in model.states]) == (64, ["h"])
        h = np.zeros((1, 1, 16), np.float32)
        for chunk in names["chunks"]:
            y, h = session.run(["y", "h_next"], {"x": chunk, "h": h})
            np.testing.assert_allclose(model.run(chunk)[0], y, rtol=1e-5, atol=1e-6)

    assert mavcg("bench", "libgru.so", "--runs", "3").status == 0  # the states go on
    assert "states: h f32[1,1,16] in place; 64 B" in mavcg("inspect", "libgru.so").stdout
    first = (
        mavcg("run", "libgru.so", "--seed", "0", "-o", "a.npz"),
        mavcg("run", "libgru.so", "--seed", "0", "-o", "b.npz"),
    )
    assert [ended.status for ended in first] == [0, 0]
    with np.load("a.npz") as a, np.load("b.npz") as b:
        assert (a["y"] == b["y"]).all()  # each command begins with the initial states


@pytest.fixture
def gru(here: Path) -> Path:
    pytest.importorskip("onnx")
    exec(example()[0], {})
    return here / "gru.onnx"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--state", "h"), "--state h: write INPUT=OUTPUT"),
        (("--state", "c=c_next"), "--state c=c_next: no input has such a name; inputs are x, h"),
        (("--state", "h=y"), r"input h \(f32\[1,1,16\]\) and output y \(f32\[4,1,1,16\]\): a state has one type"),
        (("--state", "h=h_next", "--state", "h=h_next"), "one of them is a state already"),
        (("--state", "h=h_next", "--partial"), "--state h=h_next: applies to whole models"),
        (("--state", "h=h_next", "--shape", "x=1,2x1x8"), "--state h=h_next: a state belongs to a context, and each"),
    ],
)
def test_what_is_refused(gru: Path, mavcg: Mavcg, options: tuple[str, ...], words: str) -> None:
    ended = mavcg("build", gru, "-o", gru.parent / "libgru.so", *GENERIC, *options)
    assert ended.status == 2 and re.search(words, ended.stderr), ended.stderr
    assert not list(gru.parent.glob("*.so"))


def test_a_program_has_no_states(here: Path, mavcg: Mavcg) -> None:
    ended = mavcg("build", "--source", "a.c", "--state", "h=h_next")
    assert ended.status == 2 and "--state: is for models" in ended.stderr


def streaming(shape: tuple[int, ...] = (1, 1, 8)) -> bytes:
    """A TFLite file as streaming keyword models are: a rolling window, a product over it and a sum of all runs."""
    variables = pytest.importorskip("tests.mavcg.importers.tflite.test_variables")
    w = variables.Writer()
    rng = np.random.default_rng(0)
    x, window = w.input(shape, name="x"), (1, 4, shape[2])
    first = {"window": rng.standard_normal(window).astype(np.float32), "total": np.ones((1, 5), np.float32)}
    variables.first_values(w, first)
    held, total = variables.handle(w, "window"), variables.handle(w, "total")
    past = variables.read(w, held, window)
    joined = (1, 5, shape[2])
    whole = w.op("CONCATENATION", [past, x], "f32", "ConcatenationOptions", axis=1, shape=joined)
    ends = [w.constant(list(each)) for each in ((0, 1, 0), joined, (1, 1, 1))]
    masks = {"beginMask": 5, "endMask": 5}
    variables.assign(
        w, held, w.op("STRIDED_SLICE", [whole, *ends], "f32", "StridedSliceOptions", shape=window, **masks)
    )
    flat = w.op("RESHAPE", [whole, w.constant([1, 5 * shape[2]])], "f32", shape=(1, 5 * shape[2]))
    weights = w.constant(rng.standard_normal((5, 5 * shape[2])).astype(np.float32))
    product = w.op("FULLY_CONNECTED", [flat, weights, -1], "f32", "FullyConnectedOptions", shape=(1, 5))
    summed = variables.add(w, variables.read(w, total, (1, 5)), product, (1, 5))
    variables.assign(w, total, summed)
    w.graph.tensors[summed].name = "y"
    data: bytes = w.bytes(summed)
    return data


@pytest.mark.long
def test_a_streaming_tflite_file(here: Path, mavcg: Mavcg) -> None:
    data = streaming()
    (here / "stream.tflite").write_bytes(data)
    ended = mavcg("build", "stream.tflite", "-o", "libstream.so", *GENERIC, "--json")
    assert ended.status == 0, ended.stderr
    document = json.loads(ended.stdout)
    assert [t["name"] for t in document["inputs"]] == ["x"] and len(document["outputs"]) == 1
    assert {s["name"]: s["in_place"] for s in document["states"]} == {"total": True, "window": True}

    from tests.mavcg.importers.tflite.stateful_runs import litert_runs

    rng = np.random.default_rng(1)
    sequence = [rng.standard_normal((1, 1, 8)).astype(np.float32) for _ in range(6)]
    with package.load("libstream.so") as model:
        for _ in range(2):
            for x, theirs in zip(sequence, litert_runs(data, sequence), strict=True):
                np.testing.assert_allclose(model.run(x)[0], theirs, rtol=1e-5, atol=1e-5)
            model.reset()


def test_doors_without_states(here: Path, mavcg: Mavcg) -> None:
    """Commands that cannot keep a state refuse the file, and name the state."""
    (here / "stream.tflite").write_bytes(streaming())
    (here / "app.toml").write_text('[[network]]\nname = "net"\nfile = "stream.tflite"\n')
    out = here / "out.so"
    for arguments, words in (
        (("app", "build", "app.toml", "--board", "exynos9820", "-o", out), "the networks of an application share"),
        (("app", "plan", "app.toml", "--board", "exynos9820"), "the networks of an application share"),
        (("accel", "build", "stream.tflite", "--target", "zu2", "-o", here / "out.bin"), "has no memory between runs"),
        (("build", "stream.tflite", "--shape", "x=1,2x1x8", *GENERIC, "-o", out), "each of several sizes has contexts"),
    ):
        ended = mavcg(*arguments)
        assert ended.status == 2 and words in ended.stderr, (arguments, ended.stderr)
        assert "the model keeps window, total from run to run: build it alone" in ended.stderr
    assert not list(here.glob("out*"))
