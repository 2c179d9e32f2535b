"""Errors of sums of f16 products against f64: in blocks of 64 terms, in f16 throughout, and in f32.

    python -m bench.half_sums

Terms are random: inputs of a normal distribution or its positive part, weights of He's initialisation, both rounded to
f16 first. The errors are root mean squares over the root mean square of the sums, rounded to f16 at the end. Nothing is
timed: the figures are the same on every machine.
"""

import numpy as np
from numpy.typing import NDArray

from mavcg.kernels.gemm.register_tile import F16_BLOCK_TERMS

SUMS = 2000
LENGTHS = (64, 576, 1152, 4608)


def half_sums(x: NDArray[np.float16], w: NDArray[np.float16], block: int) -> NDArray[np.float16]:
    """Return the sum of each row's products, added in f16 within blocks of terms and in f32 across. x, w: [sums,
    terms]."""
    total = np.zeros(len(x), np.float32)
    products = x.astype(np.float64) * w.astype(np.float64)
    for first in range(0, x.shape[1], block):
        part = np.zeros(len(x), np.float16)
        for k in range(first, min(first + block, x.shape[1])):
            part = (part.astype(np.float64) + products[:, k]).astype(np.float16)  # one rounding: products are exact
        total += part.astype(np.float32)
    return total.astype(np.float16)


def relative_errors(terms: int, positive: bool) -> dict[str, float]:
    """Return the error of each way to add this number of terms. positive: inputs are the output of a relu."""
    rng = np.random.default_rng(terms)
    x = rng.standard_normal((SUMS, terms))
    halves = (np.maximum(x, 0) if positive else x).astype(np.float16)
    w = (rng.standard_normal((SUMS, terms)) * np.sqrt(2 / terms)).astype(np.float16)
    exact = np.sum(halves.astype(np.float64) * w.astype(np.float64), axis=1)
    ways = {
        "blocks of 64": half_sums(halves, w, F16_BLOCK_TERMS),
        "f16 throughout": half_sums(halves, w, terms),
        "f32": exact.astype(np.float32).astype(np.float16),
    }
    scale = np.sqrt(np.mean(exact**2))
    return {
        name: float(np.sqrt(np.mean((sums.astype(np.float64) - exact) ** 2)) / scale) for name, sums in ways.items()
    }


def main() -> None:
    """Print the errors, a line for each number of terms."""
    for terms in LENGTHS:
        for positive in (False, True):
            errors = relative_errors(terms, positive)
            print(terms, "relu" if positive else "normal", *(f"{name} {error:.2e}" for name, error in errors.items()))


if __name__ == "__main__":
    main()
