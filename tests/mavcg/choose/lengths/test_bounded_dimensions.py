"""Several bounded dimensions: onnxruntime's values, and the bits of kernels for each pair of lengths."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.graph.counts import Dimension
from tests.conftest import NO_SHRINKING, examples

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from tests.mavcg.choose.lengths.bert_models import MOST, Encoder, bert, sentence  # noqa: E402
from tests.mavcg.choose.lengths.bounded_models import PIECES, Tokens, grown, save_model  # noqa: E402
from tests.mavcg.choose.lengths.bounded_run import assert_same  # noqa: E402

SHAPES = {"input_ids": ("batch", "tokens"), "attention_mask": ("batch", "tokens")}
PAIRS = ((1, 1), (1, 9), (2, 9), (3, 70), (4, 1), (4, MOST))


def batches(pairs: tuple[tuple[int, int], ...]) -> dict[Any, Any]:
    return {pair: sentence(pair[1], batch=pair[0]) for pair in pairs}


BATCHES = (Dimension("batch", 1, 4), Dimension("tokens", 1, MOST))


@pytest.mark.parametrize("masked", [-10000.0, 0.0])
@pytest.mark.sample(1)
def test_a_sentence_encoder(tmp_path: Path, masked: float) -> None:
    """Tokens, their places and segments, masks of each sentence, and the mean of its tokens."""
    path = bert(tmp_path / "bert.onnx", layers=1, batch="batch", masked=masked)
    assert_same(path, SHAPES, BATCHES, batches(PAIRS), ((2, 9), (3, 70)))


@pytest.mark.long
def test_the_first_token_of_each_sentence(tmp_path: Path) -> None:
    net = Encoder(batch="batch")
    x = net.layer(net.embeddings(), net.causal_mask())
    taken = net.add("Gather", x, np.array(0), axis=1)
    cut = net.add("Squeeze", net.add("Slice", x, np.array([0]), np.array([1]), np.array([1])), np.array([1]))
    path = net.save(tmp_path / "m.onnx", *(net.linear(first, net.width, net.width) for first in (taken, cut)))
    assert_same(path, SHAPES, BATCHES, batches(PAIRS), ((2, 9), (3, 70)))


def test_transposes_and_sums_across_dimensions(tmp_path: Path) -> None:
    net = Encoder(batch="batch")
    x = net.embeddings()
    outputs = [net.add("Transpose", x, perm=perm) for perm in ((1, 0, 2), (0, 2, 1), (2, 1, 0))]
    outputs += [net.in_heads(x, (0, 2, 1, 3)), net.add("Add", x, net.add("ReduceMax", x, axes=[1], keepdims=1))]
    outputs += [net.add("ReduceMean", x, axes=[1, 2], keepdims=0), net.add("Sub", x, net.normal(1, 1, 1))]
    path = net.save(tmp_path / "m.onnx", *outputs)
    assert_same(path, SHAPES, BATCHES, batches(PAIRS), ((2, 9), (3, 70)))


@pytest.mark.long
def test_attention_to_another_sequence(tmp_path: Path) -> None:
    """Tokens of an encoder, and vectors of a decoder with a length of their own."""
    net = Encoder(batch="batch")
    memory = net.layer(net.embeddings(), net.mask())
    y = net.layer(net.norm("y"), net.mask(), memory)
    given = onnx.helper.make_tensor_value_info("y", 1, ["batch", "targets", net.width])
    path = net.save(tmp_path / "m.onnx", net.layer(y, net.mask(), memory), memory, more=[given])
    dimensions = (*BATCHES, Dimension("targets", 1, 33))
    rng = np.random.default_rng(0)
    inputs = {
        (b, n, m): {**sentence(n, batch=b), "y": rng.standard_normal((b, m, net.width)).astype(np.float32)}
        for b, n, m in ((1, 1, 1), (3, 40, 2), (2, 7, 33), (4, MOST, 33), (1, 9, 1))
    }
    assert_same(path, {**SHAPES, "y": ("batch", "targets", net.width)}, dimensions, inputs, ((3, 40, 2), (2, 7, 33)))


def test_two_sequences_of_their_own(tmp_path: Path) -> None:
    """Each of two inputs has its own length, of one bound; one has a fixed batch of 3."""
    a, b = Tokens(8, seed=1), Tokens(8, seed=2)
    b.last, b.count = "z", 100
    for net in (a, b):
        net.linear(12)
        net.attention()
        net.above_mean()
    for made in b.nodes:
        made.input[:] = [f"b{name}" if name in b.arrays else name for name in made.input]
    value = onnx.helper.make_tensor_value_info
    inputs = [value("x", 1, [1, "n", 8]), value("z", 1, [3, "m", 8])]
    arrays = a.arrays | {f"b{name}": array for name, array in b.arrays.items()}
    nodes = [*a.nodes, *b.nodes]
    save_model(tmp_path / "m.onnx", nodes, inputs, [value(net.last, 1, None) for net in (a, b)], arrays)
    rng = np.random.default_rng(0)
    given = {
        (n, m): {"x": rng.standard_normal((1, n, 8)), "z": rng.standard_normal((3, m, 8))}
        for n, m in ((1, 1), (5, 2), (2, 20), (20, 20))
    }
    floats = {key: {name: x.astype(np.float32) for name, x in each.items()} for key, each in given.items()}
    dimensions = (Dimension("n", 1, 20), Dimension("m", 1, 20))
    assert_same(tmp_path / "m.onnx", {"x": (1, "n", 8), "z": (3, "m", 8)}, dimensions, floats, ((5, 2), (2, 20)))


@settings(max_examples=examples(300, 2), phases=NO_SHRINKING)
@given(
    width=st.integers(2, 40),
    pieces=st.lists(st.tuples(st.sampled_from(sorted(PIECES)), st.integers(2, 40)), min_size=1, max_size=4),
    most=st.tuples(st.integers(2, 9), st.integers(2, 40)),
    data=st.data(),
)
def test_random_networks_of_batches_have_the_bits_of_one_length(
    tmp_path: Path, width: int, pieces: list[tuple[str, int]], most: tuple[int, int], data: Any
) -> None:
    net = grown(width, pieces)
    dimensions = (Dimension("batch", 1, most[0]), Dimension("tokens", 1, most[1]))
    pair = tuple(data.draw(st.integers(2, length)) for length in most)
    rng = np.random.default_rng(3)
    inputs = {
        (b, n): {"x": rng.standard_normal((b, n, width)).astype(np.float32)}
        for b, n in {(1, 1), most, pair, (1, pair[1])}
    }
    path = net.save(tmp_path / "m.onnx", outer=("batch", "tokens"))
    assert_same(path, {"x": ("batch", "tokens", width)}, dimensions, inputs, (pair,))
