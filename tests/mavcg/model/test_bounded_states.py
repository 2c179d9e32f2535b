"""States with a bounded dimension: each sequence of a batch goes on where its own last run left it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mavcg as package
from mavcg.errors import MavcgError
from mavcg.graph import Array
from tests.mavcg.cli.in_process import build_in
from tests.mavcg.importers.grouped_attention_models import ROOM, SIZE
from tests.mavcg.importers.grouped_attention_models import model as attention_model
from tests.mavcg.importers.loop_models import scan_model
from tests.mavcg.importers.recurrent_models import GATES, HIDDEN, WIDTH, model
from tests.mavcg.importers.tflite.test_recurrent import lstm_file, svdf_file

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

MOST, STEPS = 4, 6
OPTIONS = ("--board", "host", "-o", "libm.so", "--tune", "off")
STATES = ("--state=g=g_next", "--state=h=h_next")
# Numbers of sequences: fewer, more, all and one, after each other; an even and an odd number of runs between.
BATCHES = (4, 4, 2, 3, 1, 4, 1, 3, 4, 4, 2, 4, 1)


@dataclass
class Alone:
    """Each sequence by itself in onnxruntime, with its own states.

    states: by input, the axis of the sequences and the output that follows. values: by input, of all sequences.
    """

    path: Path
    states: Mapping[str, tuple[int, str]]
    values: dict[str, Array]
    session: Any = field(init=False)

    def __post_init__(self) -> None:
        self.session = onnxruntime.InferenceSession(str(self.path))

    def run(self, inputs: Mapping[str, tuple[int | None, Array]], axis: int) -> Array:
        """Return the first output for these inputs, whose sequences lie along the given axes. axis: of the output."""
        batch = next(a.shape[at] for at, a in inputs.values() if at is not None)
        names, results = [output.name for output in self.session.get_outputs()], list[Array]()
        for i in range(batch):
            one = {name: a if at is None else np.take(a, [i], at) for name, (at, a) in inputs.items()}
            one |= {name: np.take(self.values[name], [i], at) for name, (at, _) in self.states.items()}
            made = dict(zip(names, self.session.run(None, one), strict=True))
            for name, (at, output) in self.states.items():
                np.moveaxis(self.values[name], at, 0)[i] = np.moveaxis(made[output], at, 0)[0]
            results.append(made[names[0]])
        return np.concatenate(results, axis)

    def saved(self) -> dict[str, Array]:
        return {name: a.copy() for name, a in self.values.items()}


def free(path: Path, axes: Mapping[str, Sequence[str | int]]) -> None:
    """Give inputs names of axes, and outputs no shape."""
    made = onnx.load(path)
    for tensor in made.graph.input:
        for dim, name in zip(tensor.type.tensor_type.shape.dim, axes.get(tensor.name, ()), strict=False):
            if isinstance(name, str):
                dim.dim_param = name
    for output in made.graph.output:
        output.type.tensor_type.ClearField("shape")
    onnx.save(made, path)


def steps_first(path: Path, made_of: Path) -> None:
    """Write a model of batch-first layout for onnxruntime, which refuses that: the operator, between transpositions."""
    made = onnx.load(made_of)
    (layer,) = made.graph.node
    del layer.attribute[[attribute.name for attribute in layer.attribute].index("layout")]
    moved = []
    for name in (value.name for value in made.graph.input):
        layer.input[list(layer.input).index(name)] = f"{name}_moved"
        moved.append(onnx.helper.make_node("Transpose", [name], [f"{name}_moved"], perm=[1, 0, 2]))
    moved.append(layer)
    for number, name in enumerate(list(layer.output)):
        layer.output[number] = f"{name}_moved"
        perm = [1, 0, 2] if number else [2, 0, 1, 3]
        moved.append(onnx.helper.make_node("Transpose", [f"{name}_moved"], [name], perm=perm))
    made.graph.ClearField("node")
    made.graph.node.extend(moved)
    onnx.save(made, path)


def recurrent(folder: Path, op: str, layout: int, **form: Any) -> Alone:
    """A library of a layer, of any number of time steps and sequences, whose states stay; and its reference."""
    arrays = model(folder / "m.onnx", op, STEPS, batch=MOST, states=True, layout=layout, **form)
    names = ("batch", "time") if layout else ("time", "batch")
    free(folder / "m.onnx", {"X": names} | dict.fromkeys("hc", ("batch",) if layout else (1, "batch")))
    held = {name: (1 - layout, f"Y_{name}") for name in "hc" if name in arrays}
    ranges = {"batch": f"1..{MOST}", "time": f"1..{STEPS}"}
    x = f"--shape=X={ranges[names[0]]}x{ranges[names[1]]}x{WIDTH}"
    report = json.loads(
        build_in(folder, "m.onnx", x, "--state=h=Y_h", *["--state=c=Y_c"] * ("c" in held), *OPTIONS, "--json")
    )
    assert dict(report["dimensions"]) == {"batch": [1, MOST], "time": [1, STEPS]}
    assert report["state_bytes"] >= 4 * HIDDEN * MOST * len(held)
    alone = folder / "m.onnx"
    if layout:
        steps_first(alone := folder / "alone.onnx", folder / "m.onnx")
    return Alone(alone, held, {name: np.zeros_like(arrays[name]) for name in held})


def follow(folder: Path, alone: Alone, layout: int) -> None:
    """Compare runs of a layer with any number of sequences; save, restore and reset between them."""
    rng, saved = np.random.default_rng(1), None
    output = 0 if layout else 2  # of Y: [batch, time, directions, hidden] or [time, directions, batch, hidden]
    with package.load(folder / "libm.so", threads=2) as library:
        for number, batch in enumerate(BATCHES * 2):
            steps = int(rng.integers(1, STEPS + 1))
            x = rng.standard_normal((batch, steps, WIDTH) if layout else (steps, batch, WIDTH)).astype(np.float32)
            want = alone.run({"X": (1 - layout, x)}, output)
            np.testing.assert_allclose(library.run(x)[0], want, 1e-4, 1e-5, err_msg=f"run {number}")
            if number == 7:
                saved = library.save_state(), alone.saved()
            if number in (10, 15):  # after a run of two sequences, and of three
                assert saved is not None
                library.restore_state(saved[0])
                alone.values = {name: a.copy() for name, a in saved[1].items()}
                assert library.save_state() == saved[0]
            if number == 19:
                library.reset()
                alone.values = {name: np.zeros_like(a) for name, a in alone.values.items()}


def test_a_layer_over_sequences_that_come_and_go(tmp_path: Path) -> None:
    """The states of both directions: the second one's lie behind as many sequences as a run has."""
    follow(tmp_path, recurrent(tmp_path, "GRU", 0, direction="bidirectional"), 0)


@pytest.mark.long
@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_every_recurrent_operator(tmp_path: Path, op: str, direction: str, layout: int) -> None:
    follow(tmp_path, recurrent(tmp_path, op, layout, direction=direction), layout)


def test_a_scan_over_sequences_that_come_and_go(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    weights = rng.standard_normal((3, 3)).astype(np.float32) * np.float32(0.3)
    scan_model(tmp_path / "m.onnx", (STEPS, MOST, 3), 0, False, 0, False, weights)
    made = onnx.load(tmp_path / "m.onnx")
    names = [value.name for value in (*made.graph.input, *made.graph.output)]
    free(tmp_path / "m.onnx", {"x": ("time", "batch"), "start": ("batch",)})
    last, stacked = names[2:]
    build_in(tmp_path, "m.onnx", f"--shape=x=1..{STEPS}x1..{MOST}x3", f"--state=start={last}", *OPTIONS)
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    kept = np.zeros((MOST, 3), np.float32)
    with package.load(tmp_path / "libm.so") as library:
        for number, batch in enumerate(BATCHES):
            x = rng.standard_normal((1 + number % STEPS, batch, 3)).astype(np.float32)
            (have,) = library.run(x)
            for i in range(batch):
                kept[i : i + 1], want = session.run([last, stacked], {"x": x[:, i : i + 1], "start": kept[i : i + 1]})
                np.testing.assert_allclose(have[:, i : i + 1], want, 1e-4, 1e-5)


def test_caches_of_texts_that_come_and_go(tmp_path: Path) -> None:
    """Each text of a batch has a cache and a length of its own; a run writes the rows of its own texts only."""
    heads, most = (4, 2), 5
    path = attention_model(tmp_path / "m.onnx", MOST, most, heads, True, more={"do_rotary": 1})
    caches = ("past_key", "past_value")
    free(path, {"q": ("batch", "tokens"), "last": ("batch",), **dict.fromkeys(caches, ("batch",))})
    width = (heads[0] + 2 * heads[1]) * SIZE
    shape = f"--shape=q=1..{MOST}x1..{most}x{width}"
    report = json.loads(build_in(tmp_path, "m.onnx", shape, "--state=past_*=present_*", *OPTIONS, "--json"))
    assert report["state_bytes"] == 2 * 4 * MOST * heads[1] * ROOM * SIZE  # in place: one copy, of the largest batch
    zeros = {name: np.zeros((MOST, heads[1], ROOM, SIZE), np.float32) for name in caches}
    alone = Alone(path, {name: (0, name.replace("past", "present")) for name in caches}, zeros)
    rng, written = np.random.default_rng(2), np.zeros(MOST, np.int64)
    with package.load(tmp_path / "libm.so", threads=2) as library:
        for batch, count in ((4, 3), (2, 1), (3, 2), (1, 5), (2, 1), (4, 1)):
            before = int(written[:batch].min())  # the operator takes all of a run's tokens from one place on
            ends = np.full(batch, before + count - 1, np.int32)
            written[:batch] = before + count
            q = rng.standard_normal((batch, count, width)).astype(np.float32)
            total = np.array(before + count, np.int32)
            want = alone.run({"q": (0, q), "last": (0, ends), "total": (None, total)}, 0)
            feed = {"q": q, "last": ends, "total": total}
            (have,) = library.run(*(feed[tensor.name] for tensor in library.inputs))
            np.testing.assert_allclose(have, want, 2e-5, 2e-5)


@pytest.mark.parametrize("lstm", [True, pytest.param(False, marks=pytest.mark.long)])
def test_variable_tensors_of_tflite_follow_the_sequences(tmp_path: Path, lstm: bool) -> None:
    """LSTM and SVDF. LiteRT takes the file's number of sequences alone: here an interpreter has each one's file."""
    interpreter = pytest.importorskip("ai_edge_litert.interpreter").Interpreter
    steps = 9

    def file(batch: int) -> bytes:
        rng = np.random.default_rng(4)
        return lstm_file(steps, batch=batch, random=rng) if lstm else svdf_file(batch, 4, 1, True, 1, rng)

    (tmp_path / "m.tflite").write_bytes(file(2))
    between = f"x{steps}" if lstm else ""
    report = json.loads(build_in(tmp_path, "m.tflite", f"--shape=t0=1..{MOST}{between}x3", *OPTIONS, "--json"))
    assert all(state["type"].startswith(f"f32[{MOST},") for state in report["states"])
    alone = [interpreter(model_content=file(1), num_threads=1) for _ in range(MOST)]
    for each in alone:
        each.allocate_tensors()
    rng = np.random.default_rng(6)
    with package.load(tmp_path / "libm.so", threads=2) as library:
        for batch in BATCHES:
            x = rng.standard_normal((batch, steps, 3) if lstm else (batch, 3)).astype(np.float32)
            (have,) = library.run(x)
            for i, each in enumerate(alone[:batch]):
                each.set_tensor(each.get_input_details()[0]["index"], x[i : i + 1])
                each.invoke()
                want = each.get_tensor(each.get_output_details()[0]["index"])
                np.testing.assert_allclose(have[i : i + 1], want, 1e-4, 1e-5)


@pytest.fixture(scope="module")
def sums(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sums of what each element has read, as a state in place and as one in two copies, of two bounded axes."""
    folder, node, info = tmp_path_factory.mktemp("sums"), onnx.helper.make_node, onnx.helper.make_tensor_value_info
    shape = [2, "a", 3, "b"]
    nodes = [
        node("Add", ["g", "x"], ["g_next"]),
        node("Sub", ["h", "x"], ["h_next"]),
        node("Mul", ["g_next", "h"], ["y"]),  # reads h after its next value is there
    ]
    inputs = [info(name, 1, shape) for name in "xgh"]
    made = onnx.helper.make_graph(nodes, "sums", inputs, [info(n, 1, shape) for n in ("y", "g_next", "h_next")])
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(made, opset_imports=opset, ir_version=8), folder / "m.onnx")
    report = json.loads(build_in(folder, "m.onnx", "--shape=x=2x1..3x3x1..4", *STATES, *OPTIONS, "--json"))
    assert {state["in_place"] for state in report["states"]} == {True, False}
    return folder / "libm.so"


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.one_of(st.tuples(st.integers(1, 3), st.integers(1, 4)), st.sampled_from(["save", "restore", "reset"])),
        max_size=30,
    )
)
def test_any_order_of_shapes_saves_and_resets(sums: Path, calls: list[tuple[int, int] | str]) -> None:
    g, h = np.zeros((2, 2, 3, 3, 4), np.float32)
    saved: tuple[bytes, Array, Array] | None = None
    with package.load(sums) as library:
        for number, call in enumerate(calls):
            match call:
                case (int(a), int(b)):
                    x = np.arange(number, number + 6 * a * b, dtype=np.float32).reshape(2, a, 3, b)
                    part = (slice(None), slice(a), slice(None), slice(b))
                    want = (g[part] + x) * h[part]
                    g[part] += x
                    h[part] -= x
                    np.testing.assert_array_equal(library.run(x)[0], want)
                case "save":
                    saved = library.save_state(), g.copy(), h.copy()
                    values = np.frombuffer(saved[0][16:], np.float32).reshape(2, *g.shape)
                    assert {a.tobytes() for a in values} == {g.tobytes(), h.tobytes()}
                case "restore" if saved is not None:
                    library.restore_state(saved[0])
                    g, h = saved[1].copy(), saved[2].copy()
                case "reset":
                    library.reset()
                    g, h = np.zeros((2, *g.shape), np.float32)


def test_shapes_that_do_not_fit_leave_the_states(sums: Path) -> None:
    with package.load(sums) as library:
        first = np.ones((2, 3, 3, 4), np.float32)
        library.run(first)
        saved = library.save_state()
        for shape in ((2, 4, 3, 4), (2, 0, 3, 4), (2, 3, 3, 5), (1, 3, 3, 4)):
            with pytest.raises(MavcgError, match="do not fit [^;]*; give such arrays, or build"):
                library.run(np.ones(shape, np.float32))
        assert library.save_state() == saved


def test_a_state_whose_next_value_is_longer_is_refused(tmp_path: Path) -> None:
    node, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [node("Expand", ["h", "shape"], ["grown"]), node("Neg", ["x"], ["y"])]
    made = onnx.helper.make_graph(
        [node("Shape", ["x"], ["shape"]), *nodes],
        "g",
        [info("x", 1, ["rows", 3]), info("h", 1, ["past", 3])],
        [info("y", 1, None), info("grown", 1, None)],
    )
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(made, opset_imports=opset, ir_version=8), tmp_path / "m.onnx")
    with pytest.raises(AssertionError, match=r"its shape is \[1, 3\] and becomes \[rows, 3\]; an axis that grows is"):
        build_in(tmp_path, "m.onnx", "--shape=x=1..4x3", "--shape=h=1x3", "--state=h=grown", *OPTIONS)
