"""Operators that become products, sums and moves of others: beside NumPy in double, and beside onnxruntime."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.graph import Array
from mavcg.importers.limits import UnsupportedOp
from tests.conftest import examples
from tests.mavcg.importers.one_operator import floats, ours, theirs

SIZES = {"a": 2, "b": 3, "c": 4, "d": 1}


@st.composite
def equations(draw: st.DrawFn) -> tuple[list[str], str | None]:
    """Terms of one to three operands, each with up to three labels that may repeat, and of a result."""
    terms = draw(st.lists(st.text("abcd", max_size=3), min_size=1, max_size=3))
    used = sorted(set("".join(terms)))
    kept = draw(st.permutations(used))
    return terms, None if draw(st.booleans()) else "".join(kept[: draw(st.integers(0, len(kept)))])


@settings(max_examples=examples(150, 20))
@given(equations())
def test_einsum_of_random_equations(equation: tuple[list[str], str | None]) -> None:
    terms, result = equation
    inputs = [floats(*(SIZES[label] for label in term), seed=n) for n, term in enumerate(terms)]
    text = ",".join(terms) + ("" if result is None else f"->{result}")
    wanted = np.einsum(text, *(array.astype(np.float64) for array in inputs))
    assert np.allclose(ours("Einsum", inputs, equation=text), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("...ij,...jk->...ik", [(2, 3, 4), (4, 5)]),
        ("b...d , ...d", [(2, 3, 4), (3, 4)]),
        ("...ii->...i", [(2, 3, 3)]),
        ("i...->...", [(2, 3)]),
        ("bhqd,bhkd->bhqk", [(1, 2, 3, 4), (1, 2, 5, 4)]),
        ("...,...->...", [(2, 1), (1, 3)]),
    ],
)
def test_einsum_with_an_ellipsis(equation: str, shapes: list[tuple[int, ...]]) -> None:
    inputs = [floats(*shape, seed=n) for n, shape in enumerate(shapes)]
    wanted = np.einsum(equation, *(array.astype(np.float64) for array in inputs))
    assert np.allclose(ours("Einsum", inputs, equation=equation), wanted, rtol=1e-5, atol=1e-5)
    if len({len(shape) for shape in shapes}) == 1:  # onnxruntime refuses "..." of different lengths
        assert np.allclose(theirs("Einsum", inputs, equation=equation), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("equation", "words"),
    [
        ("ij,jk,kl->il", "2 operands"),
        ("ij,jk->iz", "no operand"),
        ("i,jk", "for an operand"),
        ("ij,jk->ii", "twice"),
        ("i1,jk->i", "terms are letters"),
        ("ij,ik->jk", "3 and 2|2 and 3"),
    ],
)
def test_einsum_refuses_what_has_no_meaning(equation: str, words: str) -> None:
    with pytest.raises(MavcgError, match=words):
        ours("Einsum", [floats(2, 3), floats(3, 2)], equation=equation)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_sums_and_products_of_all_before(exclusive: int, reverse: int, dtype: type) -> None:
    x: Array = np.random.default_rng(0).integers(1, 4, (3, 11, 2)).astype(dtype)
    axis = np.array(1, np.int64)
    attrs = {"exclusive": exclusive, "reverse": reverse}
    assert np.array_equal(ours("CumSum", [x], [axis], **attrs), theirs("CumSum", [x], [axis], **attrs))
    turned = np.flip(x, 1) if reverse else x
    product: Array = np.cumprod(turned, 1, dtype=dtype) // (turned if exclusive else 1)
    made = ours("CumProd", [x], [axis], opset=26, **attrs)
    assert np.array_equal(made, np.flip(product, 1) if reverse else product)


@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize("inverse", [0, 1])
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("length", [None, 4, 9])
def test_fourier_transforms(opset: int, inverse: int, parts: int, length: int | None) -> None:
    x = floats(3, 7, 5, parts)
    known = [np.array(7 if length is None else length, np.int64)]
    attrs: dict[str, Any] = {"inverse": inverse}
    if opset >= 20:
        known.append(np.array(1, np.int64))
    else:
        attrs["axis"] = 1
    numbers = x[..., 0] + 1j * (x[..., 1] if parts == 2 else 0)
    wanted = (np.fft.ifft if inverse else np.fft.fft)(numbers, length, axis=1)
    made = ours("DFT", [x], known, opset, **attrs)
    assert np.allclose(made[..., 0] + 1j * made[..., 1], wanted, atol=1e-5)


@pytest.mark.parametrize("length", [6, 7])
def test_one_sided_transforms_undo_each_other(length: int) -> None:
    x, count, axis = floats(2, length, 1), np.array(length, np.int64), np.array(1, np.int64)
    half = ours("DFT", [x], [count, axis], 20, onesided=1)
    wanted = np.fft.rfft(x[..., 0].astype(np.float64), axis=1)
    assert np.allclose(half[..., 0] + 1j * half[..., 1], wanted, atol=1e-5)
    assert np.allclose(ours("DFT", [half], [count, axis], 20, onesided=1, inverse=1), x, atol=1e-5)


@pytest.mark.parametrize("onesided", [0, 1])
def test_transforms_of_frames(onesided: int) -> None:
    x, step, window = floats(2, 40, 1), np.array(6, np.int64), np.hanning(16).astype(np.float32)
    length = np.array(16, np.int64)
    made = ours("STFT", [x], [step, window, length], onesided=onesided)
    assert np.allclose(made, theirs("STFT", [x], [step, window, length], onesided=onesided), atol=1e-4)


def test_a_huge_transform_is_refused() -> None:
    with pytest.raises((UnsupportedOp, MavcgError), match="bytes|elements"):
        ours("DFT", [np.zeros((1, 1 << 17, 1), np.float32)], [np.array(1 << 17, np.int64)])
