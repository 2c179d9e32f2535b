"""Serve one BLAS, which multiplies as lines of input say.

`python bench/blas_worker.py CALLS.so LIBRARY PREFIX SUFFIX WIDE`.

It says {"ok": true, "version": ..} when it is ready, and answers each line of JSON with one: {"letter", "transa", "m",
"n", "k", "calls"} with {"wall_s": .., "cpu_s": .., "apart": ..}, of a call; apart: the largest difference from NumPy in
double, over the largest element, of the first call with these sizes, else null.
"""

import ctypes
import json
import sys
from typing import Any

import numpy as np

PLAIN, TRANSPOSED = 111, 112
# Products of bf16 and f16 with sums in f32 as MKL names them; their arguments are those of sbgemm and shgemm.
MKL_NAMES = {"sb": "cblas_gemm_bf16bf16f32", "sh": "cblas_gemm_f16f16f32"}
ALIGN = 64


class ProductStruct(ctypes.Structure):
    """The C struct `product` of bench/blas_calls.c."""

    _fields_ = [
        ("transa", ctypes.c_int32),
        ("transb", ctypes.c_int32),
        *((name, ctypes.c_int64) for name in ("m", "n", "k", "lda", "ldb", "ldc")),
        *((name, ctypes.c_void_p) for name in ("a", "b", "c")),
    ]


def given(letter: str, numbers: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return numbers as elements of A or B of a routine, and their values in double. bfloat16: its bits, truncated."""
    if letter == "sb":
        bits = numbers.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
        return (bits >> 16).astype(np.uint16), bits.view(np.float32).astype(np.float64)
    elements = numbers.astype({"s": np.float32, "d": np.float64, "sh": np.float16}[letter])
    return elements, elements.astype(np.float64)


def function_of(library: ctypes.CDLL, letter: str, prefix: str, suffix: str) -> ctypes.c_void_p | None:
    """Return the library's routine, or None if it has none."""
    for name in (f"{prefix}cblas_{letter}gemm{suffix}", MKL_NAMES.get(letter, "")):
        if name and hasattr(library, name):
            return ctypes.cast(getattr(library, name), ctypes.c_void_p)
    return None


def aligned(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a copy that begins at a multiple of ALIGN bytes."""
    room = np.empty(values.nbytes + ALIGN, np.uint8)
    first = -room.ctypes.data % ALIGN
    copy: np.ndarray[Any, Any] = room[first : first + values.nbytes].view(values.dtype).reshape(values.shape)
    copy[...] = values
    return copy


class Products:
    """The operands of one kind of product, reused in every round."""

    def __init__(self, letter: str, transa: bool, m: int, n: int, k: int) -> None:
        random = np.random.default_rng(0)
        a, a_values = given(letter, random.standard_normal((m, k) if transa else (k, m)))  # columns as rows of memory
        b, b_values = given(letter, random.standard_normal((n, k)))
        c = np.zeros((n, m), np.float64 if letter == "d" else np.float32)
        self.arrays = [aligned(a), aligned(b), aligned(c)]
        places = [array.ctypes.data for array in self.arrays]
        flag = TRANSPOSED if transa else PLAIN
        self.struct = ProductStruct(flag, PLAIN, m, n, k, k if transa else m, k, m, *places)
        self.exact = ((a_values if transa else a_values.T) @ b_values.T).T

    def error(self) -> float:
        """Return the largest difference from the exact result, over the largest element of the latter."""
        return float(np.abs(self.arrays[2] - self.exact).max() / np.abs(self.exact).max())


def main() -> None:
    """Load the library, then answer lines until there are none."""
    calls, path, prefix, suffix, wide = sys.argv[1:]
    library, caller = ctypes.CDLL(path), ctypes.CDLL(calls)
    functions = {letter: function_of(library, letter, prefix, suffix) for letter in ("s", "d", *MKL_NAMES)}
    core = getattr(library, f"{prefix}openblas_get_corename{suffix}", None)
    if core is not None:
        core.restype = ctypes.c_char_p
    print(json.dumps({"ok": True, "version": core().decode() if core is not None else ""}), flush=True)
    kinds: dict[tuple[Any, ...], Products] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        key = tuple(asked[name] for name in ("letter", "transa", "m", "n", "k"))
        new = key not in kinds
        if new:
            kinds[key] = Products(*key)
        out = (ctypes.c_double * 2)()
        count = int(asked["calls"])
        product, is_double = ctypes.byref(kinds[key].struct), int(key[0] == "d")
        caller.seconds_of_calls(functions[key[0]], is_double, int(wide), product, ctypes.c_int64(count), out)
        error = kinds[key].error() if new else None
        print(json.dumps({"wall_s": out[0] / count, "cpu_s": out[1] / count, "apart": error}), flush=True)


if __name__ == "__main__":
    main()
