"""--state with caches that grow: the context holds their length, and each run adds its tokens."""

import json
from collections.abc import Iterator, Mapping
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

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from tests.mavcg.choose.lengths.growing_caches import HEADS, SIZE, WIDTH, decoder, steps_of  # noqa: E402

PAST, TOKENS, LAYERS = 12, 5, 2
OPTIONS = ("--cores", "generic", "-o", "libm.so", "--tune", "off")
SHAPES = (f"--shape=x=1x1..{TOKENS}x{WIDTH}", f"--shape=past.0.key=1x{HEADS}x0..{PAST}x{SIZE}")


class Reference:
    """onnxruntime, with the caches passed on by the caller."""

    def __init__(self, path: Path, layers: int = LAYERS) -> None:
        self.session, self.layers = onnxruntime.InferenceSession(str(path)), layers
        self.reset()

    def reset(self) -> None:
        made = steps_of(0, 1, self.layers)
        self.caches = {name: x for name, x in made.items() if name.startswith("past")}

    @property
    def past(self) -> int:
        return int(self.caches["past.0.key"].shape[2])

    def step(self, tokens: int) -> tuple[dict[str, Array], Array]:
        """Return the inputs of the caller for the next tokens, and the result."""
        made = steps_of(self.past, tokens, self.layers)
        inputs = {name: x for name, x in made.items() if not name.startswith("past")}
        (result, *grown) = self.session.run(None, inputs | self.caches)
        self.caches = dict(zip(self.caches, grown, strict=True))
        return inputs, result


def states(path: Path, layers: int = LAYERS) -> list[str]:
    """A pair for each cache: outputs of the test's decoder have no telling names."""
    outputs = [output.name for output in onnx.load(path).graph.output][1:]
    inputs = [f"past.{layer}.{kind}" for layer in range(layers) for kind in ("key", "value")]
    return [f"--state={name}={output}" for name, output in zip(inputs, outputs, strict=True)]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("growing")
    decoder(folder / "m.onnx", LAYERS)
    report = json.loads(build_in(folder, "m.onnx", *SHAPES, *states(folder / "m.onnx"), *OPTIONS, "--json"))
    assert report["dimensions"] == {"tokens": [1, TOKENS], "past": [0, PAST]}
    assert report["state_bytes"] == 2 * (2 * LAYERS) * 4 * HEADS * (PAST + TOKENS) * SIZE  # with those of the last run
    return folder


def fed(model: package.Model, inputs: Mapping[str, Array]) -> list[Array]:
    return [inputs[tensor.name] for tensor in model.inputs]


def near(have: Array, want: Array) -> None:
    assert have.shape == want.shape and np.abs(have - want).max() <= 1e-4 * np.abs(want).max()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_text_token_by_token_is_that_of_onnxruntime(built: Path, threads: int) -> None:
    """A prompt, single tokens, and a few at once, up to the last run that begins within the bounds."""
    reference = Reference(built / "m.onnx")
    with package.load(built / "libm.so", threads=threads) as model:
        assert [t.name for t in model.inputs] == ["keys_seen", "x", "position_ids"] and len(model.outputs) == 1
        for tokens in (3, 1, 1, 5, 2, TOKENS):
            inputs, want = reference.step(tokens)
            near(model.run(*fed(model, inputs))[0], want)
        assert reference.past == PAST + TOKENS


def test_masks_of_other_lengths_are_refused(built: Path) -> None:
    """Also one as long as that of the run before: the context has more tokens now."""
    reference = Reference(built / "m.onnx")
    with package.load(built / "libm.so") as model:
        inputs, want = reference.step(2)
        near(model.run(*fed(model, inputs))[0], want)
        with pytest.raises(MavcgError, match="do not fit"):
            model.run(*fed(model, inputs))
        inputs, want = reference.step(2)
        near(model.run(*fed(model, inputs))[0], want)


ROWS, MOST = 4, 6


@pytest.fixture(scope="module")
def sums(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sums over all rows so far: of `a`, [past, 3], which is extended in place, and `b`, [2, past, 3], with two copies.

    No numbers of b but those of a, and the negative ones.
    """
    folder, node, info = tmp_path_factory.mktemp("sums"), onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [
        node("Concat", ["a", "x"], ["a_next"], axis=0),
        node("Neg", ["x"], ["negative"]),
        node("Concat", ["x", "negative"], ["pair"], axis=1),
        node("Reshape", ["pair", "form"], ["rows_of_two"]),
        node("Transpose", ["rows_of_two"], ["new"], perm=[1, 0, 2]),
        node("Concat", ["b", "new"], ["b_next"], axis=1),
        node("ReduceSum", ["a_next", "zero"], ["y"], keepdims=0),
        node("ReduceSum", ["b_next", "one"], ["z"], keepdims=0),
    ]
    arrays = {"form": np.array([-1, 2, 3]), "zero": np.array([0]), "one": np.array([1])}
    made = onnx.helper.make_graph(
        nodes,
        "sums",
        [info("x", 1, ["rows", 3]), info("a", 1, ["past", 3]), info("b", 1, [2, "past", 3])],
        [info(name, 1, None) for name in ("y", "z", "a_next", "b_next")],
        [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(made, opset_imports=opset, ir_version=8), folder / "m.onnx")
    return folder


def build_sums(folder: Path, *more: str, past: str = f"0..{MOST}") -> dict[str, Any]:
    shapes = (f"--shape=x=1..{ROWS}x3", f"--shape=a={past}x3")
    return dict(json.loads(build_in(folder, "m.onnx", *shapes, *more, *OPTIONS, "--json")))


@pytest.fixture(scope="module")
def library(sums: Path) -> Iterator[Path]:
    report = build_sums(sums, "--state=a=a_next", "--state=b=b_next")
    assert {state["name"]: state["in_place"] for state in report["states"]} == {"a": True, "b": False}
    yield sums / "libm.so"


def wanted(rows: list[Array]) -> tuple[Array, Array]:
    total = np.concatenate(rows).sum(axis=0)
    return total, np.stack([total, -total])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(st.integers(1, ROWS), st.sampled_from(["save", "restore", "reset"])), max_size=30),
    st.integers(1, 2),
)
def test_any_order_of_runs_saves_and_resets(library: Path, calls: list[int | str], threads: int) -> None:
    """A run that would begin with more rows than the bound is refused, and changes nothing."""
    rows, saved = list[Array](), list[tuple[bytes, list[Array]]]()
    with package.load(library, threads=threads) as model:
        for number, call in enumerate(calls):
            x = np.arange(number, number + 3 * (call if isinstance(call, int) else 1), dtype=np.float32).reshape(-1, 3)
            match call:
                case int() if sum(map(len, rows)) <= MOST:
                    rows.append(x)
                    for have, want in zip(model.run(x), wanted(rows), strict=True):
                        np.testing.assert_array_equal(have, want)
                case int():
                    with pytest.raises(MavcgError, match="reset"):
                        model.run(x)
                case "save":
                    saved = [(model.save_state(), list(rows))]
                case "restore" if saved:
                    ((state, before),) = saved
                    model.restore_state(state)
                    rows = list(before)
                    assert model.save_state() == state
                case "reset":
                    model.reset()
                    rows = []


def test_profiled_runs_are_of_the_same_lengths(library: Path) -> None:
    """So many runs would grow the states beyond their bound. The states are left as a single run leaves them."""
    x = np.ones((2, 3), np.float32)
    with package.load(library) as model:
        np.testing.assert_array_equal(model.run(x)[0], [2] * 3)
        assert all(step.ns > 0 for step in model.profile(x, runs=MOST))
        np.testing.assert_array_equal(model.run(x[:1])[0], [5] * 3)


def test_saved_states_of_a_length_that_cannot_be_are_refused(library: Path) -> None:
    x = np.ones((2, 3), np.float32)
    with package.load(library) as model:
        model.run(x)
        saved = model.save_state()
        assert int.from_bytes(saved[-8:], "little") == 2
        for length in (-1, MOST + ROWS + 1, 1 << 40, -(1 << 63)):
            with pytest.raises(MavcgError):
                model.restore_state(saved[:-8] + length.to_bytes(8, "little", signed=True))
        np.testing.assert_array_equal(model.run(x)[0], [4, 4, 4])


def test_what_the_caller_passes_has_the_length_that_the_context_holds(sums: Path) -> None:
    """One of two caches is a state, the caller passes the other one."""
    build_sums(sums, "--state=a=a_next")
    rng = np.random.default_rng(1)
    with package.load(sums / "libm.so") as model:
        b = np.zeros((2, 0, 3), np.float32)
        for _ in range(3):
            with pytest.raises(MavcgError, match=r"do not fit .* of [^;]*; give such arrays, or build the library"):
                model.run(np.zeros((2, 3), np.float32), np.zeros((2, b.shape[1] + 1, 3), np.float32))
            x = rng.integers(-9, 9, (2, 3)).astype(np.float32)
            y, z, b = model.run(x, b)
            np.testing.assert_array_equal(z, b.sum(axis=1))
            np.testing.assert_array_equal(y, z[0])


def test_no_shapes_fit_states_that_are_full(sums: Path) -> None:
    """Not even those that the context would have next, so that a reset is the way out."""
    build_sums(sums, "--state=a=a_next")
    x = np.ones((ROWS, 3), np.float32)
    with package.load(sums / "libm.so") as model:
        b = np.zeros((2, 0, 3), np.float32)
        while b.shape[1] <= MOST:
            b = model.run(x, b)[2]
        with pytest.raises(
            MavcgError, match=r"do not fit .*; its states are full: reset\(\) or restore_state\(\) them"
        ):
            model.run(x[:1], b)
        model.reset()
        assert model.run(x, b[:, :0])[2].shape == (2, ROWS, 3)


@pytest.mark.parametrize(
    ("past", "state", "message"),
    [
        ("0..6:2", ["--state=a=a_next", "--state=b=b_next"], r"is \[2 \* past, 3\] .* a range of its own and no step"),
        ("2", ["--state=a=a_next", "--state=b=b_next"], "an axis that grows is a dimension with a range of its own"),
    ],
)
def test_what_is_refused(sums: Path, past: str, state: list[str], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        build_sums(sums, *state, past=past)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--state=a=nothing", "has no output nothing; outputs are y, z"),
        ("--state=cache=a_next", "no input has such a name; inputs are x, a, b"),
        ("--shape=cache=1x3", "--shape cache: no such input; inputs are x, a, b"),
    ],
)
def test_a_wrong_name_beside_a_range_has_no_remedy_of_lengths(sums: Path, option: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message) as refused:
        build_sums(sums, option)
    assert "bounded dimension" not in str(refused.value) and "least lengths" not in str(refused.value)
