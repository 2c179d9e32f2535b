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
ALIGN = 64


class ProductStruct(ctypes.Structure):
    """The C struct `product` of bench/blas_calls.c."""

    _fields_ = [
        ("transa", ctypes.c_int32),
        ("transb", ctypes.c_int32),
        *((name, ctypes.c_int64) for name in ("m", "n", "k", "lda", "ldb", "ldc")),
        *((name, ctypes.c_void_p) for name in ("a", "b", "c")),
    ]


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
        dtype = np.float32 if letter == "s" else np.float64
        random = np.random.default_rng(0)
        a = random.standard_normal((m, k) if transa else (k, m)).astype(dtype)  # columns as rows of memory
        b = random.standard_normal((n, k)).astype(dtype)
        self.arrays = [aligned(a), aligned(b), aligned(np.zeros((n, m), dtype))]
        places = [array.ctypes.data for array in self.arrays]
        flag = TRANSPOSED if transa else PLAIN
        self.struct = ProductStruct(flag, PLAIN, m, n, k, k if transa else m, k, m, *places)
        left = a.astype(np.float64) if transa else a.T.astype(np.float64)
        self.exact = (left @ b.T.astype(np.float64)).T

    def error(self) -> float:
        """Return the largest difference from the exact result, over the largest element of the latter."""
        return float(np.abs(self.arrays[2] - self.exact).max() / np.abs(self.exact).max())


def main() -> None:
    """Load the library, then answer lines until there are none."""
    calls, path, prefix, suffix, wide = sys.argv[1:]
    library, caller = ctypes.CDLL(path), ctypes.CDLL(calls)
    functions = {
        letter: ctypes.cast(getattr(library, f"{prefix}cblas_{letter}gemm{suffix}"), ctypes.c_void_p) for letter in "sd"
    }
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
