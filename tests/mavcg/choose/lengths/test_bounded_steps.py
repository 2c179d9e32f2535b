"""Lengths that are multiples of a step: networks that divide them, which take no others or pad them.

Values are compared with onnxruntime's, and bits with those of kernels for the lengths.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.errors import MavcgError
from mavcg.graph.counts import Dimension

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from tests.mavcg.choose.lengths.bounded_models import Images, Tokens, u_net  # noqa: E402
from tests.mavcg.choose.lengths.bounded_run import assert_right, assert_same, lowered_for_lengths  # noqa: E402


def assert_sizes(path: Path, net: Images, dimensions: Sequence[Dimension], sizes: Sequence[tuple[int, ...]]) -> None:
    """Compare values at these sizes, and bits at the first."""
    rng = np.random.default_rng(1)
    names = [dimension.name for dimension in dimensions]
    inputs = {}
    for size in sizes:
        known = dict(zip(names, size, strict=True))
        shape = [known[length] if isinstance(length, str) else int(length or 1) for length in net.shape]
        inputs[size] = {"x": rng.standard_normal(shape).astype(np.float32)}
    assert_same(net.save(path / "m.onnx"), {"x": net.shape}, dimensions, inputs, sizes[:1])


@pytest.mark.long
def test_a_u_net_of_any_height_and_width(tmp_path: Path) -> None:
    dimensions = (Dimension("height", 1, 6, 4), Dimension("width", 1, 5, 4))
    sizes = [(12, 8), (24, 4), (4, 20), (4, 4), (24, 20)]
    assert_sizes(tmp_path, u_net(2, 1, 3, "height", "width"), dimensions, sizes)


def test_the_error_of_a_u_net_says_which_step_it_takes(tmp_path: Path) -> None:
    path = u_net(3, 1, 3, "height", "width").save(tmp_path / "m.onnx")
    shapes, eight = {"x": (1, 3, "height", "width")}, "multiples of 8 as"
    for dimensions, words in (
        ((Dimension("height", 1, 48), Dimension("width", 5, 5, 8)), f"{eight} height: give 8..48:8"),
        ((Dimension("height", 2, 25, 2), Dimension("width", 1, 5, 8)), f"{eight} height: give 8..48:8"),
        (
            (Dimension("height", 3, 49), Dimension("width", 9, 50)),
            f"{eight} height: give 8..48:8 and {eight} width: give 16..48:8",
        ),
    ):
        with pytest.raises(MavcgError, match=f"the model takes {words}"):
            lowered_for_lengths(path, shapes, dimensions)


@pytest.mark.long
@pytest.mark.parametrize("step", [6, 4])
def test_windows_at_strides_that_the_step_has_or_has_not(tmp_path: Path, step: int) -> None:
    """Strides of 2, 2 and 3, pools in ceil mode: a step of 6 leaves remainders at two of them, 4 at one."""
    net = Images(1, 5, None)
    net.conv(8, 3, pads=[1, 1], strides=[2])
    net.pool("MaxPool", 3, strides=[2], ceil_mode=1)
    net.conv(8, 3, pads=[1, 1], strides=[3])
    net.conv(6, 3, pads=[1, 1], act="")
    lengths = tuple(step * n for n in (2, 3, 4, 5, 9, 16))
    assert_right(net.save(tmp_path / "m.onnx"), net.shape, Dimension("N", 2, 16, step), lengths, lengths[1:4])


def test_attention_in_windows_of_a_fixed_size(tmp_path: Path) -> None:
    """Tokens cut into windows of 8, and back: the number of windows is the length divided by 8."""
    net = Tokens(16)
    net.linear(16)
    net.add("Reshape", net.last, net.constant(np.array([-1, 8, 16])))
    net.attention()
    net.add("Reshape", net.last, net.constant(np.array([1, -1, 16])))
    net.norm()
    path = net.save(tmp_path / "m.onnx")
    assert_right(path, (1, None, 16), Dimension("tokens", 1, 9, 8), (8, 16, 40, 72), (16, 40))
    with pytest.raises(MavcgError, match="the model takes multiples of 8 as tokens: give 8..72:8"):
        lowered_for_lengths(path, {"x": (1, None, 16)}, Dimension("tokens", 1, 72))


def test_halves_beside_each_other(tmp_path: Path) -> None:
    """The first and the second half of the tokens, as channels: a slice in the middle of the axis."""
    net = Tokens(8)
    net.linear(8)
    whole = net.last
    halves = net.add("Reshape", whole, net.constant(np.array([2, -1, 8])))
    net.add("Concat", *(net.add("Gather", halves, net.constant(np.array([i])), axis=0) for i in (0, 1)), axis=2)
    net.width = 16
    net.linear(5)
    path = net.save(tmp_path / "m.onnx")
    assert_right(path, (1, None, 8), Dimension("tokens", 1, 20, 4), (4, 8, 36, 80), (8, 36))


@pytest.mark.parametrize(
    ("kernel", "more"),
    [(2, {}), pytest.param(4, {"pads": [1, 1, 1, 1]}, marks=pytest.mark.long), (3, {"output_padding": [1, 1]})],
)
def test_transposed_convolutions_of_any_width(tmp_path: Path, kernel: int, more: dict[str, Any]) -> None:
    """Double the image, as decoders of U-Nets and text detectors do; with windows that overlap, too."""
    net = Images("batch", 5, "height", "width")
    net.conv(6, 3, 3, pads=[1, 1, 1, 1])
    weights = net.rng.standard_normal((6, 20, kernel, kernel)).astype(np.float32) / 5
    bias = net.constant(np.linspace(-1, 1, 20).astype(np.float32))
    net.add("ConvTranspose", net.last, net.constant(weights), bias, strides=[2, 2], **more)
    net.add("Relu", net.last)
    dimensions = (Dimension("batch", 1, 2), Dimension("height", 1, 4, 2), Dimension("width", 1, 23))
    sizes = [(2, 6, 9), (1, 8, 23), (2, 2, 1), (1, 2, 2), (2, 8, 22)]
    assert_sizes(tmp_path, net, dimensions, sizes)
