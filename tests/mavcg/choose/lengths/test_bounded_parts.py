"""Parts that lie behind a bounded dimension, or begin at its end: onnxruntime's values, and the bits of each length."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mavcg.graph.counts import Dimension

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from tests.mavcg.choose.lengths.bounded_models import Tokens, save_model  # noqa: E402
from tests.mavcg.choose.lengths.bounded_run import assert_right, assert_same  # noqa: E402
from tests.mavcg.choose.lengths.growing_caches import CACHE, WIDTH, decoder, steps_of  # noqa: E402

FAR = 2**31 - 1


def cut(net: Tokens, x: str, start: int, end: int = FAR, step: int = 1, axis: int = 1) -> str:
    return net.add("Slice", x, *map(net.whole, (start, end, axis, step)))


def appended(net: Tokens) -> None:
    net.linear(8)
    net.add("Concat", net.last, net.normal(1, 1, 8), axis=1)


def between_constants(net: Tokens) -> None:
    net.add("Concat", net.normal(1, 2, 8), "x", net.normal(1, 3, 8), "x", net.normal(1, 1, 8), axis=1)


def with_its_halves(net: Tokens) -> None:
    """Two of the tokens' length, of which the second is cut out again."""
    net.linear(8)
    both = net.add("Concat", net.last, "x", axis=1)
    length = net.add("Gather", net.add("Shape", "x"), net.constant(np.array([1])))
    net.add("Slice", both, length, *map(net.whole, (FAR, 1)))
    net.activation("Relu")


def from_the_last_back(net: Tokens) -> None:
    net.linear(8)
    cut(net, net.last, -1, -FAR, -1)


def of_as_many_constants(net: Tokens) -> None:
    """At the longest length the rows that are cut out are all of the constant."""
    cut(net, net.add("Concat", "x", net.normal(1, 40, 8), axis=1), 40)


PARTS: dict[str, tuple[Callable[[Tokens], object], int]] = {  # the parts, and the least length
    "appended": (appended, 1),
    "between constants": (between_constants, 1),
    "its halves": (with_its_halves, 1),
    "of as many constants": (of_as_many_constants, 1),
    "last one": (lambda net: cut(net, "x", -1), 1),
    "last three": (lambda net: cut(net, "x", -3), 3),
    "before the last": (lambda net: cut(net, "x", -3, -1), 3),
    "from the last back": (from_the_last_back, 1),
    "last index": (lambda net: net.add("Gather", "x", net.constant(np.array(-1)), axis=1), 1),
}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.sample(2)
def test_parts_of_tokens(tmp_path: Path, name: str) -> None:
    net = Tokens(8)
    add, least = PARTS[name]
    add(net)
    net.activation("Sigmoid")
    lengths = [n for n in (1, 2, 3, 7, 39, 40) if n >= least]
    path = net.save(tmp_path / "m.onnx")
    assert_right(path, (1, None, 8), Dimension("tokens", least, 40), tuple(lengths), (7, 39))


PAST = (Dimension("past", 0, 33), Dimension("tokens", 1, 9))


@pytest.mark.long
@pytest.mark.parametrize("joined", [False, True])
def test_a_decoder_whose_cache_grows(tmp_path: Path, joined: bool) -> None:
    path = decoder(tmp_path / "gpt.onnx", joined=joined)
    pairs = ((1, 1), (5, 1), (7, 3), (0, 1), (33, 9), (2, 9), (0, 9), (33, 1))
    shapes = {"x": (1, "tokens", WIDTH), **{f"past.0.{name}": CACHE for name in ("key", "value")}}
    assert_same(path, shapes, PAST, {pair: steps_of(*pair) for pair in pairs}, ((7, 3), (2, 9)))


def test_caches_that_grow(tmp_path: Path) -> None:
    """By a row in front of them, and by their own rows twice."""
    value, net = onnx.helper.make_tensor_value_info, Tokens(8)
    net.add("Concat", "cache", net.normal(1, 2, 1, 4), axis=2)
    net.add("Concat", "x", net.last, "x", axis=2)
    outputs = [value(net.last, 1, None), value(net.add("Slice", net.last, *map(net.whole, (-2, FAR, 2))), 1, None)]
    inputs = [value("cache", 1, [1, 2, "past", 4]), value("x", 1, [1, 2, "tokens", 4])]
    save_model(tmp_path / "m.onnx", net.nodes, inputs, outputs, net.arrays)
    rng = np.random.default_rng(0)
    given = {
        (p, n): {"cache": rng.standard_normal((1, 2, p, 4)), "x": rng.standard_normal((1, 2, n, 4))}
        for p, n in ((1, 1), (33, 9), (0, 1), (7, 2), (0, 9))
    }
    floats = {pair: {name: x.astype(np.float32) for name, x in each.items()} for pair, each in given.items()}
    shapes = {"cache": (1, 2, "past", 4), "x": (1, 2, "tokens", 4)}
    assert_same(tmp_path / "m.onnx", shapes, PAST, floats, ((7, 2),))


def test_last_rows_of_a_few_behind_others(tmp_path: Path) -> None:
    """A convolution's state of four rows: of few tokens, some of the state's own rows are among the last four."""
    net = Tokens(8)
    both = net.add("Concat", net.normal(1, 4, 8), "x", net.normal(1, 1, 8), axis=1)
    first = net.add("Relu", cut(net, both, 0, 6))
    net.add("Relu", cut(net, both, -4))
    path = net.save(tmp_path / "m.onnx", [first, net.last])
    assert_right(path, (1, None, 8), Dimension("tokens", 1, 20), (1, 2, 3, 4, 19, 20), (3, 19))


def test_last_rows_of_tensors_that_lie_in_wider_ones(tmp_path: Path) -> None:
    """Such as the last token of what is joined to other channels: its rows lie as far apart as the joined ones."""
    net = Tokens(8)
    hidden = net.add("Relu", "x")
    net.linear(5)
    joined = net.add("Concat", hidden, net.last, axis=2)
    last = cut(net, hidden, -1)
    wider = net.add("Pad", "x", net.constant(np.array([0, 0, 1, 0, 0, 2])))
    behind = cut(net, "x", -1)
    path = net.save(tmp_path / "m.onnx", [joined, last, wider, behind])
    assert_right(path, (1, None, 8), Dimension("tokens", 1, 20), (1, 2, 19, 20), (2, 19))


def test_channels_in_reverse(tmp_path: Path) -> None:
    """Each has the time inside: the stride back to the one before follows from the length."""
    net = Tokens(4)
    turned = net.add("Transpose", "x", perm=[0, 2, 1])
    swapped, some = cut(net, turned, -1, -FAR, -1), cut(net, turned, 2, -FAR, -2)
    path = net.save(tmp_path / "m.onnx", [swapped, some])
    assert_right(path, (1, None, 4), Dimension("time", 1, 30), (1, 2, 3, 29, 30), (2, 29))
