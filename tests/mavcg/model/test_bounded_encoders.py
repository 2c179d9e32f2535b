"""Sentence encoders with a free number of tokens: onnxruntime's values, and the bits of kernels for each length."""

from pathlib import Path

import pytest

from mavcg.specs.dimension import Dimension

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from tests.mavcg.model.bert_models import LEAST_F32, MOST, bert, sentence  # noqa: E402
from tests.mavcg.model.test_bounded_rows import assert_same  # noqa: E402

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
@pytest.mark.parametrize("masked", [-10000.0, LEAST_F32, 0.0])
def test_a_sentence_encoder_at_ten_lengths(tmp_path: Path, masked: float) -> None:
    path = bert(tmp_path / "bert.onnx", masked=masked)
    inputs = {length: sentence(length) for length in LENGTHS}
    # Of a single token, what is added to the words has the shape of a bias, and joins the other constants.
    assert_same(path, SHAPES, Dimension("tokens", 1, MOST), inputs, LENGTHS[1:])
