"""Sentence encoders with a free number of tokens: onnxruntime's values, and the bits of kernels for each length."""

from pathlib import Path

import numpy as np
import pytest

import mavcg as package
from mavcg.errors import MavcgError
from mavcg.graph.counts import Dimension

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from tests.mavcg.choose.lengths.bert_models import LEAST_F32, MOST, Encoder, bert, sentence  # noqa: E402
from tests.mavcg.choose.lengths.bounded_run import assert_same  # noqa: E402
from tests.mavcg.cli.in_process import build_in  # noqa: E402

SHAPES = {"input_ids": (1, None), "attention_mask": (1, None)}
LENGTHS = (1, 2, 3, 7, 16, 31, 64, 65, MOST - 1, MOST)


def test_a_sentence_encoder(tmp_path: Path) -> None:
    path = bert(tmp_path / "bert.onnx", layers=1)
    inputs = {length: sentence(length) for length in (1, 9, MOST)}
    assert_same(path, SHAPES, Dimension("tokens", 1, MOST), inputs, (9,))


def test_a_mask_that_is_expanded_for_each_query(tmp_path: Path) -> None:
    path = bert(tmp_path / "bert.onnx", layers=1, pooled=False, masked=0.0)
    assert_same(path, SHAPES, Dimension("tokens", 1, MOST), {length: sentence(length) for length in (5, 33)}, (5,))


@pytest.mark.long
def test_a_causal_network(tmp_path: Path) -> None:
    net = Encoder()
    path = net.save(tmp_path / "gpt.onnx", net.layer(net.embeddings(), net.causal_mask()))
    assert_same(path, SHAPES, Dimension("tokens", 1, MOST), {n: sentence(n) for n in (2, 9, 70, MOST)}, (9, 70))


@pytest.mark.parametrize("op", ["Attention", "MultiHeadAttention"])
def test_attention_of_com_microsoft(tmp_path: Path, op: str) -> None:
    rng = np.random.default_rng(0)
    width, value = 24, onnx.helper.make_tensor_value_info
    weights = {f"w{i}": rng.standard_normal((width, width)).astype(np.float32) * 0.3 for i in range(3)}
    arrays = {**weights, "w": np.concatenate(list(weights.values()), axis=1), "b": np.ones(3 * width, np.float32)}
    inputs = ["x", "w", "b", "attention_mask"]
    nodes = [onnx.helper.make_node("MatMul", ["x", name], [f"x{name}"]) for name in weights]
    if op == "MultiHeadAttention":
        inputs = ["xw0", "xw1", "xw2", "b", "attention_mask"]
    nodes.append(onnx.helper.make_node(op, inputs, ["y"], domain="com.microsoft", num_heads=2))
    given = [value("x", 1, [1, "tokens", width]), value("attention_mask", 6, [1, "tokens"])]
    constants = [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = onnx.helper.make_graph(nodes, "g", given, [value("y", 1, None)], constants)
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
    path = tmp_path / "m.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    of_lengths = {
        n: {
            "x": rng.standard_normal((1, n, width)).astype(np.float32),
            "attention_mask": sentence(n)["attention_mask"].astype(np.int32),
        }
        for n in (1, 6, 40)
    }
    assert_same(
        path, {"x": (1, None, width), "attention_mask": (1, None)}, Dimension("tokens", 1, 40), of_lengths, (6,)
    )


@pytest.mark.long
def test_one_library_of_an_encoder(tmp_path: Path, cores: tuple[str, str]) -> None:
    """Built by the command, and called by Python's arrays; wrong lengths are refused."""
    bert(tmp_path / "bert.onnx")
    build_in(tmp_path, "bert.onnx", "--shape", f"input_ids=1x1..{MOST}", "--cores", cores[1], "-o", "libbert.so")
    reference = onnxruntime.InferenceSession(str(tmp_path / "bert.onnx"))
    with package.load(tmp_path / "libbert.so", threads=2) as model:
        assert model.dimensions == {"tokens": (1, MOST)}
        for length in (*LENGTHS, 5):
            given = sentence(length)
            for have, want in zip(model.run(*given.values()), reference.run(None, dict(given)), strict=True):
                assert have.shape == want.shape and np.abs(have - want).max() <= 1e-4 * np.abs(want).max()
        for ids, mask in ((0, 0), (MOST + 1, MOST + 1), (5, 6)):
            with pytest.raises(MavcgError, match="do not fit"):
                model.run(np.zeros((1, ids), np.int64), np.zeros((1, mask), np.int64))
        with pytest.raises(MavcgError, match="index"):  # a word that the table does not have
            model.run(np.full((1, 3), 1 << 40), np.ones((1, 3), np.int64))


@pytest.mark.long
@pytest.mark.parametrize("masked", [-10000.0, LEAST_F32, 0.0])
def test_a_sentence_encoder_at_ten_lengths(tmp_path: Path, masked: float) -> None:
    path = bert(tmp_path / "bert.onnx", masked=masked)
    inputs = {length: sentence(length) for length in LENGTHS}
    # Of a single token, what is added to the words has the shape of a bias, and joins the other constants.
    assert_same(path, SHAPES, Dimension("tokens", 1, MOST), inputs, LENGTHS[1:])
