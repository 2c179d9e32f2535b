"""Products of two computed matrices along a bounded dimension: onnxruntime's values, and the bits of each length."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.graph.counts import Dimension
from mavcg.model.precision import half_graph

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from tests.mavcg.choose.lengths.bounded_run import assert_same, lowered_for_lengths, optimised  # noqa: E402

CHANNELS, LENGTHS, MOST = 19, (1, 2, 5, 25, 26), 26  # a piece of a product is 24 rows
node = onnx.helper.make_node


def written(path: Path, nodes: Sequence[Any], shapes: Mapping[str, Sequence[int | None]], **constants: Any) -> Path:
    """A model whose inputs have a bounded dimension where a shape has None."""
    helper = onnx.helper
    given = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n" if d is None else d for d in shape])
        for name, shape in shapes.items()
    ]
    known = [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", given, [helper.make_empty_tensor_value_info("y")], known)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


def assert_right(
    path: Path, nodes: Sequence[Any], shapes: Mapping[str, Sequence[int | None]], **constants: Any
) -> None:
    written(path, nodes, shapes, **constants)
    rng = np.random.default_rng(0)
    arrays = {
        n: {name: rng.standard_normal([n if d is None else d for d in s]).astype("f4") for name, s in shapes.items()}
        for n in LENGTHS
    }
    bounded = {name: shape for name, shape in shapes.items() if None in shape}
    assert_same(path, bounded, Dimension("n", 1, MOST), arrays, (2, 25))


TURN = node("Transpose", ["x"], ["t"], perm=[0, 2, 1])
GRAM = [TURN, node("MatMul", ["t", "x"], ["g"])]


def test_columns_with_columns(tmp_path: Path) -> None:
    """x^T x, with a bias, a residual and an activation behind it."""
    added = [node("Add", ["g", "c"], ["a"]), node("Add", ["a", "r"], ["b"]), node("Relu", ["b"], ["y"])]
    shapes = {"x": (1, None, CHANNELS), "r": (1, CHANNELS, CHANNELS)}
    assert_right(tmp_path / "m.onnx", [*GRAM, *added], shapes, c=np.linspace(-1, 1, CHANNELS, dtype=np.float32))


@pytest.mark.parametrize("batch", [2, pytest.param(None, marks=pytest.mark.long)])
def test_channels_with_channels(tmp_path: Path, batch: int | None) -> None:
    """x x^T of rows as long as the run says, as in the attention of channels; of a batch of that length too."""
    made = [TURN, node("MatMul", ["x", "t"], ["y"])]
    assert_right(tmp_path / "m.onnx", made, {"x": (batch, CHANNELS, None)})


@pytest.mark.long
def test_style_of_images(tmp_path: Path) -> None:
    """Channels with channels over the pixels of an image of any height."""
    made = [node("Reshape", ["image", "s"], ["x"]), TURN, node("MatMul", ["x", "t"], ["y"])]
    assert_right(tmp_path / "m.onnx", made, {"image": (1, CHANNELS, None, 3)}, s=np.array([0, 0, -1]))


def test_all_tokens_with_all(tmp_path: Path) -> None:
    """Scores without a softmax, and their product with the tokens: rows, columns and terms follow from the run."""
    made = [TURN, node("MatMul", ["x", "t"], ["a"]), node("Tanh", ["a"], ["b"]), node("MatMul", ["b", "x"], ["y"])]
    assert_right(tmp_path / "m.onnx", made, {"x": (1, None, CHANNELS)})


@pytest.mark.long
def test_channels_mixed_by_computed_weights(tmp_path: Path) -> None:
    made = [node("MatMul", ["w", "x"], ["a"]), node("Add", ["a", "x"], ["y"])]
    assert_right(tmp_path / "m.onnx", made, {"x": (2, 4, None), "w": (2, 4, 4)})


def test_kernels_of_f16_take_no_length(tmp_path: Path) -> None:
    """Their terms are added in blocks that follow from their number: a build computes such products in f32."""
    path = written(tmp_path / "m.onnx", [*GRAM, node("Relu", ["g"], ["y"])], {"x": (1, None, CHANNELS)})

    def halves(graph: Graph) -> Graph:
        return half_graph(optimised(graph))

    with pytest.raises(MavcgError, match=r"\(matmul\): the bounded dimension n .* \(matmul_f16\) takes all lengths"):
        lowered_for_lengths(path, {"x": (1, None, CHANNELS)}, Dimension("n", 1, MOST), halves)
