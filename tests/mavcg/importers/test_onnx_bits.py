"""Operators of bits, and slices chosen by known inputs: beside Python's whole numbers, NumPy and onnxruntime."""

import numpy as np
import pytest

from mavcg.errors import MavcgError
from tests.mavcg.importers.one_operator import floats, ours, theirs


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("dtype", ["u1", "u4", "u8", "i1", "i2", "i4", "i8"])
def test_shifts_of_bits(direction: str, dtype: str) -> None:
    kind = np.dtype(dtype)
    x = np.random.default_rng(0).integers(np.iinfo(kind).min, np.iinfo(kind).max, (4, 9), kind, endpoint=True)
    counts = np.array([0, 1, 2, 5, 7, 8 * kind.itemsize - 1, 8 * kind.itemsize, 100, 3]).astype(kind)
    # Python's whole numbers shift by any count; the result wraps into the type.
    bits, signed = 8 * kind.itemsize, kind.kind == "i"

    def wrapped(number: int) -> int:
        number %= 1 << bits
        return number - (1 << bits) if signed and number >> bits - 1 else number

    shifted = [
        [wrapped(v << n if direction == "LEFT" else v >> n) for v, n in zip(row, counts.tolist(), strict=True)]
        for row in x.tolist()
    ]
    assert ours("BitShift", [x, counts], direction=direction, opset=27 if signed else 11).tolist() == shifted


@pytest.mark.parametrize("op", ["BitwiseAnd", "BitwiseOr", "BitwiseXor"])
@pytest.mark.parametrize("dtype", ["u1", "i1", "i4", "i8"])
def test_operators_of_bits(op: str, dtype: str) -> None:
    kind = np.dtype(dtype)
    a, b = (np.random.default_rng(n).integers(0, 99, shape).astype(kind) - 7 for n, shape in enumerate([(3, 5), (5,)]))
    a, b = a.astype(kind), b.astype(kind)
    assert np.array_equal(ours(op, [a, b], opset=18), theirs(op, [a, b], opset=18))
    assert np.array_equal(ours("BitwiseNot", [a], opset=18), ~a)
    with pytest.raises(MavcgError, match="whole numbers are needed"):
        ours(op, [a.astype(np.float32), b.astype(np.float32)], opset=18)
    with pytest.raises(MavcgError, match="bools are needed"):
        ours("And", [a, b])


@pytest.mark.parametrize("attrs", [{}, {"axis": 0}, {"axis": -1}])
def test_slices_where_a_condition_is_true(attrs: dict[str, int]) -> None:
    x, condition = floats(3, 4), np.array([True, False, True])
    assert np.array_equal(ours("Compress", [x], [condition], **attrs), theirs("Compress", [x], [condition], **attrs))


@pytest.mark.parametrize(("time", "batch"), [(0, 1), (1, 0)])
def test_sequences_in_reverse_order(time: int, batch: int) -> None:
    x, lengths = floats(4, 4, 2), np.array([1, 4, 0, 3], np.int64)
    attrs = {"time_axis": time, "batch_axis": batch}
    rows = np.moveaxis(x, (batch, time), (0, 1)).copy()
    for row, length in zip(rows, lengths, strict=True):
        row[:length] = row[:length][::-1].copy()
    assert np.array_equal(ours("ReverseSequence", [x], [lengths], **attrs), np.moveaxis(rows, (0, 1), (batch, time)))
