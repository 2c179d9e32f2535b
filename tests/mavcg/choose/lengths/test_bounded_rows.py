"""The first rows of kernels for the longest length: onnxruntime's values, and the bits of kernels for the length."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.graph.counts import Dimension
from tests.conftest import NO_SHRINKING, examples

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from tests.mavcg.choose.lengths.bounded_models import PIECES, Tokens, grown, images_model, node, save_model  # noqa: E402
from tests.mavcg.choose.lengths.bounded_run import assert_right, lowered_for_lengths  # noqa: E402


@settings(max_examples=examples(500, 2), phases=NO_SHRINKING)
@given(
    width=st.integers(2, 40),
    pieces=st.lists(st.tuples(st.sampled_from(sorted(PIECES)), st.integers(2, 40)), min_size=1, max_size=5),
    most=st.integers(3, 70),
    data=st.data(),
)
def test_random_networks_of_tokens_have_the_bits_of_one_length(
    tmp_path: Path, width: int, pieces: list[tuple[str, int]], most: int, data: Any
) -> None:
    net = grown(width, pieces)
    dimension = Dimension("tokens", 1, most)
    length = data.draw(st.integers(2, most))
    assert_right(net.save(tmp_path / "m.onnx"), (1, None, width), dimension, (1, most, length), (length,))


def test_a_network_of_tokens_at_many_lengths(tmp_path: Path) -> None:
    net = Tokens(24)
    net.linear(40)
    net.norm()
    net.residual()
    net.softmax()
    path = net.save(tmp_path / "m.onnx")
    assert_right(path, (1, None, 24), Dimension("tokens", 1, 67), (1, 2, 3, 5, 6, 7, 12, 13, 31, 66, 67), (7, 66))


def test_a_network_of_images_with_a_bounded_batch(tmp_path: Path) -> None:
    dimension = Dimension("batch", 1, 5)
    assert_right(images_model(tmp_path / "m.onnx"), (None, 3, 10, 10), dimension, (1, 2, 5), (2,))


def refused(path: Path, shape: tuple[int | None, ...], most: int = 12) -> str:
    with pytest.raises(MavcgError) as error:
        lowered_for_lengths(path, {"x": shape}, Dimension("tokens", 1, most))
    text = str(error.value)
    assert "the bounded dimension tokens (1 to" in text and "list of lengths" in text
    return text


def test_attention_in_a_bounded_batch(tmp_path: Path) -> None:
    net = Tokens(8)
    net.attention()
    net.residual()
    path = net.save(tmp_path / "m.onnx", outer=("batch", 7))
    assert_right(path, (None, 7, 8), Dimension("batch", 1, 6), (1, 2, 5, 6), (2,))


@pytest.mark.parametrize("op", ["ReduceMean", "ReduceMax", "ReduceSumSquare"])
def test_reductions_along_the_dimension(tmp_path: Path, op: str) -> None:
    """Beside tokens, and along them: partial sums of neighbours from 8 or 16 tokens on."""
    net = Tokens(5)
    net.add(op, net.last, axes=[1], keepdims=1)
    first = net.last
    net.add("Reshape", "x", net.constant(np.array([0, -1])))
    net.add(op, net.last, axes=[1], keepdims=1)
    path = net.save(tmp_path / "m.onnx", [first, net.last])
    assert_right(path, (1, None, 5), Dimension("tokens", 1, 40), (1, 2, 3, 4, 7, 8, 39, 40), (2, 3, 39))


def test_values_computed_from_the_length(tmp_path: Path) -> None:
    """Numbers of several types: the quotient of a token by the number of tokens, and what lies far from it."""
    net = Tokens(8)
    length = net.add("Gather", net.add("Shape", "x"), net.constant(np.array(1)))
    first = net.add("Div", "x", net.add("Cast", length, to=1))
    other = net.add("Sub", net.constant(np.array(9)), net.add("Mul", length, net.constant(np.array(3))))
    second = net.add("Add", net.add("Cast", net.add("Cast", other, to=6), to=1), first)
    path = net.save(tmp_path / "m.onnx", [first, second])
    assert_right(path, (1, None, 8), Dimension("tokens", 1, 40), (1, 2, 17, 39, 40), (17,))


def test_roots_and_quotients_of_the_length(tmp_path: Path) -> None:
    """A scale of attention and the divisor of a mean follow from lengths, as do places from the last one on."""
    net = Tokens(8)
    length = net.add("Gather", net.add("Shape", "x"), net.constant(np.array(1)))
    number = net.add("Cast", net.add("Mul", length, net.constant(np.array(2))), to=1)
    first = net.add("Mul", "x", net.add("Sqrt", number))
    second = net.add("Mul", first, net.add("Reciprocal", net.add("Sqrt", number)))
    second = net.add("Mul", second, net.add("Reciprocal", number))
    end = net.add("Add", length, length)
    places = net.add("Cast", net.add("Range", length, end, net.constant(np.array(1))), to=1)
    third = net.add("Add", second, net.add("Unsqueeze", places, net.whole(1)))
    path = net.save(tmp_path / "m.onnx", [first, second, third])
    # Of one length, products of numbers are folded.
    assert_right(path, (1, None, 8), Dimension("tokens", 1, 40), (1, 2, 17, 39, 40), ())


@pytest.mark.filterwarnings("error")
def test_a_value_computed_from_the_length_otherwise_is_refused(tmp_path: Path) -> None:
    net = Tokens(8)
    length = net.add("Gather", net.add("Shape", "x"), net.constant(np.array(1)))
    net.add("Div", "x", net.add("Log", net.add("Cast", length, to=1)))
    assert "has another constant" in refused(net.save(tmp_path / "m.onnx"), (1, None, 8))


def test_a_token_in_front_of_all(tmp_path: Path) -> None:
    """N + 1 tokens, with a constant first one, from a table of positions of as many; then without the last."""
    net = Tokens(8)
    net.add("Concat", net.normal(1, 1, 8), "x", axis=1)
    length = net.add("Gather", net.add("Shape", net.last), net.constant(np.array([1])))
    bounds = net.constant(np.array([0])), length, net.constant(np.array([1]))
    net.add("Add", "t1", net.add("Slice", net.normal(1, 41, 8), *bounds))
    net.attention()
    net.add("Slice", net.last, *(net.constant(np.array([i])) for i in (0, -1, 1)))
    net.linear(5)
    path = net.save(tmp_path / "m.onnx")
    assert_right(path, (1, None, 8), Dimension("tokens", 1, 40), (1, 2, 7, 39, 40), (7, 39))


def test_transposed_windows_by_computed_weights_are_refused(tmp_path: Path) -> None:
    value = onnx.helper.make_tensor_value_info
    nodes = [node("ConvTranspose", ["x", "w"], ["y"], name="window", strides=[2, 2])]
    inputs = [value("x", 1, [1, 1, 6, "tokens"]), value("w", 1, [1, 4, 2, 2])]
    save_model(tmp_path / "m.onnx", nodes, inputs, [value("y", 1, None)], {})
    words = refused(tmp_path / "m.onnx", (1, 1, 6, None))
    assert "no kernel of it (conv_transpose2d_f32_unpacked) takes all lengths" in words


def test_position_tables_are_read_from_their_beginning(tmp_path: Path) -> None:
    """A constant of which each length takes the first rows: other lengths have other constants, its beginning."""
    net = Tokens(6)
    table = net.normal(1, 40, 6)
    length = net.add("Gather", net.add("Shape", "x"), net.constant(np.array([1])))
    starts, axes = net.constant(np.array([0])), net.constant(np.array([1]))
    net.add("Add", "x", net.add("Slice", table, starts, length, axes))
    net.linear(5)
    path = net.save(tmp_path / "m.onnx")
    assert_right(path, (1, None, 6), Dimension("tokens", 1, 40), (1, 2, 17, 39, 40), (17,))
