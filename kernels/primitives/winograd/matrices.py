"""Matrices of Winograd's minimal filtering F(m, k), by the Cook-Toom construction in exact fractions.

m neighbouring outputs of a filter of k taps are A'[(G g) * (B' d)], where d are the m + k - 1 inputs, g the taps, and *
multiplies element by element. In two dimensions: A'[(G g G') * (B' d B)]A. Source: Lavin and Gray, "Fast Algorithms
for Convolutional Neural Networks" (CVPR 2016); Blahut, "Fast Algorithms for Signal Processing" (Cook-Toom).
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from mavcg.specs.kernel import Array

Row = tuple[Fraction, ...]
Matrix = tuple[Row, ...]
# Interpolation points by the number of products, in addition to infinity. Points near 1 keep powers small, and opposite
# points share half of the sums; all squares and products are exact in f32. Among pairs of multiples of 1/8 up to 2,
# 5/8 and 3/2 have the least error for six products: a third of the error with 1 and 2.
POINTS: dict[int, tuple[Fraction, ...]] = {
    t: tuple(map(Fraction, points.split()))
    for t, points in {4: "0 1 -1", 6: "0 5/8 -5/8 3/2 -3/2", 8: "0 1 -1 2 -2 1/2 -1/2"}.items()
}


@dataclass(frozen=True)
class Filtering:
    """The matrices of F(m, k): inverse is A' [m, t], weights is G [t, k], inputs is B' [t, t]; t = m + k - 1."""

    m: int
    k: int
    inverse: Matrix
    weights: Matrix
    inputs: Matrix

    @property
    def t(self) -> int:
        """Number of inputs of a tile, which is also the number of products."""
        return self.m + self.k - 1


@cache
def filtering(m: int, k: int) -> Filtering:
    """Return the matrices of F(m, k) with interpolation points POINTS and infinity.

    Raises: ValueError where POINTS has no points for m + k - 1 products.
    """
    t = m + k - 1
    if m < 1 or k < 1 or t not in POINTS:
        raise ValueError(f"F({m}, {k}): m and k from 1, and {', '.join(map(str, POINTS))} products; it has {t}")
    points = POINTS[t]
    inverse = tuple(tuple(a**i for a in points) + (Fraction(int(i == m - 1)),) for i in range(m))
    weights, inputs = [], []
    for j, a in enumerate(points):
        others = [p for i, p in enumerate(points) if i != j]
        size = Fraction(1)
        for p in others:
            size *= a - p
        weights.append(tuple(a**i / size for i in range(k)))
        inputs.append(_product(others) + (Fraction(0),))
    weights.append(tuple(Fraction(int(i == k - 1)) for i in range(k)))
    inputs.append(_product(points))
    return Filtering(m, k, inverse, tuple(weights), tuple(inputs))


def _product(roots: tuple[Fraction, ...] | list[Fraction]) -> Row:
    """Return the coefficients of the product of (x - r) over the roots r, the lowest power first."""
    coefficients = [Fraction(1)]
    for root in roots:
        higher = [Fraction(0), *coefficients]
        lower = [*coefficients, Fraction(0)]
        coefficients = [high - root * low for high, low in zip(higher, lower, strict=True)]
    return tuple(coefficients)


def as_array(matrix: Matrix) -> Array:
    """Return a matrix of fractions as an array in double precision."""
    return np.array([[float(x) for x in row] for row in matrix])


def transform_weights(m: int, weights: Array, two_d: bool) -> Array:
    """Return weights [O, KH, KW, I] transformed in double precision: G g G' [t, t, O, I], along rows only [t, O, KH,
    I]."""
    g = as_array(filtering(m, weights.shape[2]).weights)
    across = np.einsum("tx,oyxi->toyi", g, weights.astype(np.float64))
    transformed: Array = np.einsum("sy,toyi->stoi", g, across) if two_d else across
    return transformed
