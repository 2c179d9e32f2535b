"""Results of the 8-bit matrix-product instructions (FEAT_I8MM), which the emulator does not have."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

_UNSIGNED, _SIGNED = np.dtype("u1"), np.dtype("i1")


@dataclass(frozen=True)
class _Form:
    """An instruction: words that are `bits` under `mask`, the types of both sources, and its shape."""

    mask: int
    bits: int
    left: np.dtype[np.generic]
    right: np.dtype[np.generic]
    shape: str  # "dot": of four bytes each; "lane": of one group of four of the second source; "tile": 2x8 by 8x2


# Arm Architecture Reference Manual: USDOT (vector, by element), SUDOT (by element), SMMLA, UMMLA, USMMLA (vector).
_FORMS = (
    _Form(0xBFE0FC00, 0x0E809C00, _UNSIGNED, _SIGNED, "dot"),
    _Form(0xBFC0F400, 0x0F80F000, _UNSIGNED, _SIGNED, "lane"),
    _Form(0xBFC0F400, 0x0F00F000, _SIGNED, _UNSIGNED, "lane"),
    _Form(0xFFE0FC00, 0x4E80A400, _SIGNED, _SIGNED, "tile"),
    _Form(0xFFE0FC00, 0x6E80A400, _UNSIGNED, _UNSIGNED, "tile"),
    _Form(0xFFE0FC00, 0x4E80AC00, _UNSIGNED, _SIGNED, "tile"),
)


def matrix_product(word: int, vector: Callable[[int], int]) -> tuple[int, int] | None:
    """Return the destination of a matrix product and its new value; None for any other instruction.

    word: the instruction. vector: gives the 128 bits of a vector register by its number.
    """
    form = next((form for form in _FORMS if word & form.mask == form.bits), None)
    if form is None:
        return None
    to, n, m = word & 31, word >> 5 & 31, word >> 16 & 31
    sums = _as_array(vector(to), np.dtype("<i4"))
    left, right = (_as_array(vector(of), kind) for of, kind in ((n, form.left), (m, form.right)))
    if form.shape == "tile":
        products = (left.reshape(2, 8).astype(np.int32) @ right.reshape(2, 8).astype(np.int32).T).reshape(4)
    else:
        groups = right.reshape(4, 4).astype(np.int32)
        if form.shape == "lane":
            groups = groups[(word >> 11 & 1) << 1 | word >> 21 & 1]
        products = (left.reshape(4, 4).astype(np.int32) * groups).sum(1, dtype=np.int32)
    result = int.from_bytes((sums + products).astype("<i4").tobytes(), "little")
    is_half = form.shape != "tile" and not word >> 30 & 1
    return to, result & (1 << 64) - 1 if is_half else result


def _as_array(value: int, kind: np.dtype[np.generic]) -> np.ndarray:
    return np.frombuffer(value.to_bytes(16, "little"), kind)
