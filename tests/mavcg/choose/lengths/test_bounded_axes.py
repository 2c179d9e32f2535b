"""Operators along a bounded dimension: kernels that read its length, in the last place and before others.

Values are compared with onnxruntime's, and bits with those of kernels for the lengths.
"""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from mavcg.errors import MavcgError
from mavcg.graph.counts import Dimension

onnxruntime = pytest.importorskip("onnxruntime")

from tests.mavcg.choose.lengths.bounded_models import save_model  # noqa: E402
from tests.mavcg.choose.lengths.bounded_run import assert_same, lowered_for_lengths, results_of_lengths  # noqa: E402

LENGTHS = (1, 2, 3, 15, 16, 33, 40)
OWN = (3, 16, 33)  # of which there are kernels of their own
NEAREST = 1e-5


def assert_along(
    path: Path, node: Any, shape: tuple[Any, ...], arrays: dict[str, Any] | None = None, least: int = 1
) -> None:
    """Compare a node over x and constants at all lengths of "n", and "m" which is 41 - n."""
    x_info = onnx.helper.make_tensor_value_info("x", 1, shape)
    save_model(path, [node], [x_info], list(map(_output, node.output)), arrays or {})
    dimensions = [Dimension("n", least, 40), *([Dimension("m", 1, 40)] if "m" in shape else [])]
    rng, inputs = np.random.default_rng(1), dict[Any, Any]()
    for length in (each for each in LENGTHS if each >= least):
        known = {"n": length, "m": 41 - length}
        given = [known[d] if isinstance(d, str) else d for d in shape]
        key = length if len(dimensions) == 1 else (length, 41 - length)
        x = rng.standard_normal(given).astype(np.float32)
        ordered = node.op_type in ("ArgMax", "Hardmax", "TopK")
        inputs[key] = {"x": np.round(2 * x) / 2 if ordered else x}  # equal ones too
    own = [key for key in inputs if (key if isinstance(key, int) else key[0]) in OWN]
    reference = onnxruntime.InferenceSession(str(path))
    for length, (ours, fixed) in results_of_lengths(path, {"x": shape}, dimensions, inputs, own).items():
        assert ours == (fixed or ours), f"the bits of length {length}"
        for have, want in zip(ours, reference.run(None, inputs[length]), strict=True):
            near = np.frombuffer(have, want.dtype).reshape(want.shape)
            np.testing.assert_allclose(near, want, NEAREST, NEAREST)


def _output(name: str) -> Any:
    return onnx.helper.make_tensor_value_info(name, 7 if name == "at" else 1, None)


SHAPES = [((2, 3, "n"), 2), ((1, "n", 12), 1), ((2, 5, "n"), 1), (("m", "n"), 1)]


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("op", ["Softmax", pytest.param("LogSoftmax", marks=pytest.mark.long)])
def test_softmax(tmp_path: Path, op: str, shape: tuple[Any, ...], axis: int) -> None:
    assert_along(tmp_path / "m.onnx", onnx.helper.make_node(op, ["x"], ["y"], axis=axis), shape)


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_positions_of_extremes(tmp_path: Path, shape: tuple[Any, ...], axis: int) -> None:
    last = axis == 1
    node = onnx.helper.make_node("ArgMax", ["x"], ["at"], axis=axis, select_last_index=int(last), keepdims=int(last))
    assert_along(tmp_path / "m.onnx", node, shape)
    assert_along(tmp_path / "m.onnx", onnx.helper.make_node("Hardmax", ["x"], ["y"], axis=axis), shape)


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_the_best_of_any_number(tmp_path: Path, shape: tuple[Any, ...], axis: int) -> None:
    node = onnx.helper.make_node("TopK", ["x", "k"], ["y", "at"], axis=axis, largest=axis % 2)
    assert_along(tmp_path / "m.onnx", node, shape, {"k": np.array([3])}, least=3)
    if shape == (2, 3, "n"):
        with pytest.raises(MavcgError, match="the least length that the model takes is 3: give 3..40"):
            lowered_for_lengths(tmp_path / "m.onnx", {"x": shape}, Dimension("n", 1, 40))


@pytest.mark.sample(7)
@pytest.mark.parametrize(("shape", "axis"), [*SHAPES, ((2, "n", 3), 1), ((2, "n", "m", 5), 1), (("n", 4), 0)])
@pytest.mark.parametrize("flags", [0, 1, 2, 3])
def test_cumulative_sums(tmp_path: Path, shape: tuple[Any, ...], axis: int, flags: int) -> None:
    node = onnx.helper.make_node("CumSum", ["x", "a"], ["y"], exclusive=flags & 1, reverse=flags >> 1)
    assert_along(tmp_path / "m.onnx", node, shape, {"a": np.array(axis)})


OTHERS = ("ReduceSum", "ReduceMax", "ReduceL2", "ReduceLogSumExp")
REDUCED = [((2, 3, "n"), [2]), ((1, "n", 12), [1]), ((2, 5, "n"), [1]), ((2, 5, "n"), [0, 1]), (("m", 3, "n"), [0, 2])]


@pytest.mark.parametrize(("shape", "axes"), REDUCED)
@pytest.mark.parametrize("op", ["ReduceMean", *(pytest.param(op, marks=pytest.mark.long) for op in OTHERS)])
def test_reductions(tmp_path: Path, op: str, shape: tuple[Any, ...], axes: list[int]) -> None:
    if op == "ReduceSum":
        node, arrays = onnx.helper.make_node(op, ["x", "axes"], ["y"], keepdims=0), {"axes": np.array(axes)}
    else:
        node, arrays = onnx.helper.make_node(op, ["x"], ["y"], axes=axes), {}
    assert_along(tmp_path / "m.onnx", node, shape, arrays)


@pytest.mark.long
@pytest.mark.parametrize("op", ["GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"])
@pytest.mark.parametrize("shape", [(2, 3, "n"), (1, 5, "n", "m"), ("n", 3, 4, 5), (1, 5, 6, "n")])
def test_pools_of_whole_images(tmp_path: Path, op: str, shape: tuple[Any, ...]) -> None:
    assert_along(tmp_path / "m.onnx", onnx.helper.make_node(op, ["x"], ["y"]), shape)


@pytest.mark.parametrize("axis", [0, 1])
def test_norms(tmp_path: Path, axis: int) -> None:
    for p in (1, 2):
        node = onnx.helper.make_node("LpNormalization", ["x"], ["y"], axis=axis, p=p)
        assert_along(tmp_path / "m.onnx", node, ("n", 6) if axis == 0 else (3, "n"))


def test_norms_of_square_images(tmp_path: Path) -> None:
    """Their pixels are the square of a length."""
    node = onnx.helper.make_node("InstanceNormalization", ["x", "scale", "bias"], ["y"])
    assert_along(tmp_path / "m.onnx", node, (1, 3, "n", "n"), dict.fromkeys(("scale", "bias"), np.ones(3, np.float32)))


@pytest.mark.parametrize("op", ["ReduceMax", "Softmax", "CumSum", "ArgMax"])
def test_a_length_of_nothing(tmp_path: Path, op: str) -> None:
    """Its sums and softmax read nothing; the position of an extreme would be that of an element."""
    attributes = {"ReduceMax": {"axes": [1]}, "CumSum": {}}.get(op, {"axis": 1})
    names = ["x", "axis"] if op == "CumSum" else ["x"]
    node = onnx.helper.make_node(op, names, ["at" if op == "ArgMax" else "y"], **attributes)
    x_info = onnx.helper.make_tensor_value_info("x", 1, (2, "n"))
    save_model(tmp_path / "m.onnx", [node], [x_info], list(map(_output, node.output)), {"axis": np.array(1)})
    dimension = Dimension("n", 0, 9)
    if op == "ArgMax":
        with pytest.raises(MavcgError, match="n \\(0 to 9\\): no kernel of it \\(arg_max_f32\\) takes all lengths"):
            lowered_for_lengths(tmp_path / "m.onnx", {"x": (2, "n")}, dimension)
    else:
        lowered_for_lengths(tmp_path / "m.onnx", {"x": (2, "n")}, dimension)


def test_slices_that_are_all_of_the_shortest_length(tmp_path: Path) -> None:
    """The first and the last elements, of the input, and of a result that is an output too."""
    make = onnx.helper.make_node
    nodes = [
        make("Slice", ["x", "last", "end", "axis"], ["y"]),
        make("Slice", ["x", "first", "second", "axis"], ["z"]),
        make("Neg", ["x"], ["negative"]),
        make("Slice", ["negative", "first", "second", "axis"], ["a"]),
        make("Split", ["a", "parts"], ["b", "c"], axis=2),
    ]
    numbers = {"last": [-1], "end": [2**31 - 1], "axis": [1], "first": [0], "second": [1], "parts": [1, 3]}
    constants = {name: np.array(value) for name, value in numbers.items()}
    x_info = onnx.helper.make_tensor_value_info("x", 1, (2, "n", 4))
    save_model(tmp_path / "m.onnx", nodes, [x_info], list(map(_output, ["y", "z", "negative", "b", "c"])), constants)
    rng = np.random.default_rng(0)
    inputs = {n: {"x": rng.standard_normal((2, n, 4)).astype(np.float32)} for n in (1, 2, 7)}
    assert_same(tmp_path / "m.onnx", {"x": (2, "n", 4)}, Dimension("n", 1, 7), inputs, (7,))
