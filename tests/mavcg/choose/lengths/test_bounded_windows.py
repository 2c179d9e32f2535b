"""Windows that cross a bounded dimension: onnxruntime's values, and the bits of kernels for the length."""

from collections.abc import Callable, Sequence
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

from tests.mavcg.choose.lengths.bounded_models import Images, Tokens, small_cnn  # noqa: E402
from tests.mavcg.choose.lengths.bounded_run import assert_right, lowered_for_lengths  # noqa: E402
from tests.mavcg.choose.lengths.bounded_windows import OPERATORS, front_end, pyramid, tcn  # noqa: E402

Shape = tuple[int | None, ...]


def pixels_last(shape: Sequence[int | None], write: Callable[[Images], None]) -> Images:
    """A network over images N, H, W, C, or N, L, C, whose operators are over N, C, .. as ONNX has them."""
    rank = len(shape)
    net = Images(shape[0], shape[-1], *shape[1:-1])
    net.add("Transpose", "x", perm=[0, rank - 1, *range(1, rank - 1)])
    write(net)
    net.add("Transpose", net.last, perm=[0, *range(2, rank), 1])
    net.shape = tuple(shape)
    return net


@pytest.mark.parametrize("write", [tcn, front_end, pyramid])
def test_windows_along_time(tmp_path: Path, write: Callable[[Images], None]) -> None:
    shape = (1, None, 10)
    net = pixels_last(shape, write)
    lengths = (13, 14, 15, 16, 17, 18, 19, 33, 49, 50)
    assert_right(net.save(tmp_path / "m.onnx"), shape, Dimension("N", 13, 50), lengths, (14, 17, 49))


def test_the_height_of_images(tmp_path: Path) -> None:
    shape = (1, None, 12, 3)
    net = pixels_last(shape, small_cnn)
    lengths = (5, 6, 7, 8, 9, 10, 31, 39, 40)
    assert_right(net.save(tmp_path / "m.onnx"), shape, Dimension("height", 5, 40), lengths, (6, 7, 40))


@pytest.mark.parametrize("channels", [1, 3, 10, 70])
@pytest.mark.parametrize("write", [tcn, front_end])
@pytest.mark.sample(2)
def test_channels_before_time(tmp_path: Path, write: Callable[[Images], None], channels: int) -> None:
    """Rows of the caller's arrays [1, channels, N] are as long as the run says."""
    net = Images(1, channels, None)
    write(net)
    lengths = (13, 14, 63, 64, 65, 199, 200)
    assert_right(net.save(tmp_path / "m.onnx"), net.shape, Dimension("N", 13, 200), lengths, (14, 65))


def test_few_rows_of_results(tmp_path: Path) -> None:
    """Two to four rows of many channels: a transpose of as few lines is a form of its own."""
    net = Images(1, 3, None)
    net.conv(16, 4, strides=[4])
    net.conv(16, 4, strides=[4])
    path = net.save(tmp_path / "m.onnx")
    assert_right(path, net.shape, Dimension("N", 16, 50), (16, 31, 32, 47, 48, 50), (32,))


@pytest.mark.parametrize("channels", [3, 8])
@pytest.mark.sample(1)
def test_channels_before_height(tmp_path: Path, channels: int) -> None:
    net = Images(1, channels, None, 12)
    small_cnn(net)
    lengths = (5, 6, 7, 31, 39, 40)
    assert_right(net.save(tmp_path / "m.onnx"), net.shape, Dimension("height", 5, 40), lengths, (6, 39))


def test_a_decoder_of_images(tmp_path: Path) -> None:
    """Down by two and up by two, as in networks for segmentation: an odd height loses a row."""
    net = Images(1, 3, None, 16)
    net.conv(8, 2, 2, strides=[2, 2])
    scales = net.constant(np.array([1, 1, 2, 2], np.float32))
    mode = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    net.add("Resize", net.last, "", scales, **mode)
    net.conv(8, 3, 3, pads=[1, 1, 1, 1], act="")
    lengths = (6, 7, 8, 9, 30, 39, 40)
    assert_right(net.save(tmp_path / "m.onnx"), net.shape, Dimension("height", 6, 40), lengths, (6, 7, 39))


def speech_encoder(net: Images) -> None:
    """A front end of stride 4, and attention between its frames, whose mean is taken."""
    front_end(net)
    net.add("Transpose", net.last, perm=[0, 2, 1])
    tokens = Tokens(net.channels)
    tokens.nodes, tokens.arrays, tokens.last, tokens.count = net.nodes, net.arrays, net.last, 100
    tokens.attention()
    tokens.residual()
    tokens.norm()
    net.last = tokens.add("ReduceMean", tokens.last, axes=[1], keepdims=0)


def test_tokens_behind_windows(tmp_path: Path) -> None:
    net = Images(1, 10, None)
    speech_encoder(net)
    lengths = (9, 10, 11, 12, 13, 99, 119, 120)
    assert_right(net.save(tmp_path / "m.onnx"), net.shape, Dimension("frames", 5, 120), lengths, (9, 119))


def test_a_length_that_is_too_short_names_the_least(tmp_path: Path) -> None:
    net = Images(1, 4, None)
    net.conv(4, 9)
    net.conv(4, 3, strides=[2], pads=[1, 0])
    path = net.save(tmp_path / "m.onnx")
    with pytest.raises(MavcgError, match=r"at the length 1 .* does not fit .* the least length .* is 10: give 10..50"):
        lowered_for_lengths(path, {"x": net.shape}, Dimension("N", 1, 50))
    assert_right(path, net.shape, Dimension("N", 10, 50), (10, 11, 12, 50), (11,))


@settings(max_examples=examples(300, 2), phases=NO_SHRINKING)
@given(
    channels=st.integers(1, 20),
    pieces=st.lists(st.sampled_from(sorted(OPERATORS)), min_size=1, max_size=4),
    most=st.integers(90, 150),
    data=st.data(),
)
def test_random_stacks_of_windows_have_the_bits_of_one_length(
    tmp_path: Path, channels: int, pieces: list[str], most: int, data: Any
) -> None:
    net = Images(1, channels, None)
    for piece in ["conv", *pieces]:
        OPERATORS[piece](net, data.draw)
    length = data.draw(st.integers(60, most))
    lengths = (60, 61, most - 1, most, length)
    assert_right(net.save(tmp_path / "m.onnx"), net.shape, Dimension("N", 60, most), lengths, (length,))
