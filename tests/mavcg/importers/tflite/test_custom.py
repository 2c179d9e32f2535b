"""Custom operators of MediaPipe, against LiteRT's own operators of the same definition."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.errors import MavcgError
from mavcg.graph.reference import run
from mavcg.importers.tflite_file import import_tflite
from tests.mavcg.importers.tflite.conftest import Writer, litert

SAME, VALID = 1, 2
RNG = np.random.default_rng(5)
FILTERS = RNG.standard_normal((3, 2, 2, 4)).astype(np.float32)
BIAS = RNG.standard_normal(3).astype(np.float32)
X = RNG.standard_normal((1, 5, 6, 4)).astype(np.float32)


def custom(options: bytes, filters: Any = FILTERS) -> bytes:
    """A file with one Convolution2DTransposeBias."""
    writer = Writer()
    inputs = [writer.input(X.shape), writer.constant(filters), writer.constant(BIAS)]
    y = writer.op("CUSTOM", inputs)
    writer.model.operatorCodes[-1].customCode = "Convolution2DTransposeBias"
    writer.graph.operators[-1].customOptions = np.frombuffer(options, np.uint8)
    return writer.bytes(y)


def transposed(shape: tuple[int, ...], padding: int, stride: tuple[int, int]) -> Any:
    """What LiteRT's TRANSPOSE_CONV makes of the same numbers. padding: of the schema, 0 SAME and 1 VALID."""
    writer = Writer()
    inputs = [writer.constant(list(shape)), writer.constant(FILTERS), writer.input(X.shape), writer.constant(BIAS)]
    fields = {"padding": padding, "strideH": stride[0], "strideW": stride[1]}
    return litert(writer.bytes(writer.op("TRANSPOSE_CONV", inputs, options="TransposeConvOptions", **fields)), [X])[0]


@pytest.mark.parametrize(
    ("padding", "stride", "shape"),
    [(SAME, (2, 2), (1, 10, 12, 3)), (VALID, (2, 2), (1, 10, 12, 3)), (VALID, (1, 3), (1, 6, 17, 3))],
)
def test_convolution_2d_transpose_bias(
    tmp_path: Path, padding: int, stride: tuple[int, int], shape: tuple[int, ...]
) -> None:
    (tmp_path / "m.tflite").write_bytes(custom(struct.pack("<3i", padding, stride[1], stride[0])))
    (have,) = run(import_tflite(tmp_path / "m.tflite"), X)
    want = transposed(shape, padding - 1, stride)

    assert have.shape == want.shape == shape
    assert np.abs(have - want).max() <= 1e-5 * np.abs(want).max()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (b"", "its options have 0 bytes, not 12"),
        (struct.pack("<3i", 7, 2, 2), "its options are padding 7 and strides 2 x 2"),
        (struct.pack("<3i", SAME, 0, 2), "its options are padding 1 and strides 2 x 0"),
        (struct.pack("<3i", SAME, 3, 2), "SAME padding of 2x2 filters with strides 2x3; supported: filters as large"),
    ],
)
def test_options_that_make_no_sense(tmp_path: Path, options: bytes, words: str) -> None:
    (tmp_path / "m.tflite").write_bytes(custom(options))
    with pytest.raises(MavcgError) as refused:
        import_tflite(tmp_path / "m.tflite")
    assert "(CUSTOM Convolution2DTransposeBias)" in str(refused.value) and words in str(refused.value)
