"""Sine, cosine and tangent of all kinds of f32 against exact reductions: within 2 units in the last place."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mavcg.graph.reference.elementwise import activate
from mavcg.kernels.builder.trigonometry import LARGEST

Array = NDArray[Any]
AssertNode = Callable[..., list[Array]]
FUNCTIONS = {"sin": math.sin, "cos": math.cos, "tan": math.tan}


@cache
def pi() -> Fraction:
    """To 300 bits. Source: Machin's formula, pi/4 = 4 atan(1/5) - atan(1/239)."""

    def atan_of_inverse(n: int) -> Fraction:
        unity, total, k = 1 << 320, 0, 0
        term = unity // n
        while term:
            total += term // (2 * k + 1) * (-1) ** k
            term //= n * n
            k += 1
        return Fraction(total, unity)

    return 4 * (4 * atan_of_inverse(5) - atan_of_inverse(239))


def exact(name: str, x: float) -> float:
    """The function in double precision of what is left of x by multiples of a period, with no rounding before."""
    return FUNCTIONS[name](float(Fraction(x) - 2 * pi() * round(Fraction(x) / (2 * pi()))))


def units_off(computed: Array, expected: Array) -> Array:
    """By how many units in the last place of the nearest f32."""
    return np.abs(computed.astype(np.float64) - expected) / np.spacing(np.abs(expected.astype(np.float32))).astype(
        np.float64
    )


def of_every_exponent(count: int) -> Array:
    """Random mantissas and signs, `count` for each finite exponent, denormal numbers among them."""
    rng = np.random.default_rng(3)
    mantissas = rng.integers(0, 1 << 23, (255, count)) | rng.integers(0, 2, (255, count)) << 31
    return (np.arange(255)[:, None] << 23 | mantissas).astype(np.uint32).view(np.float32).reshape(-1)


def near_multiples() -> Array:
    """The f32 beside multiples of pi/2, where a reduction loses most, below LARGEST and by powers of 2 beyond."""
    n = np.concatenate([np.arange(1, 4000), np.arange(83_000, 83_600)])
    numbers = [int(round(float(Fraction(3 * 2**k)))) for k in range(17, 125, 3)]
    n_large = [round(Fraction(number) * 2 / pi()) for number in numbers]
    x = np.concatenate([[float(int(k) * pi() / 2) for k in (*n, *n_large)]]).astype(np.float32)
    return np.concatenate([x, np.nextafter(x, np.float32(0)), -np.nextafter(x, np.float32(np.inf))])


# The worst case of f32: nearest to a multiple of pi/2, relative to nothing but its own size. Source: Muller et al.,
# "Handbook of Floating-Point Arithmetic", table of worst cases for binary32, 16367173 * 2^72.
WORST = np.float32(math.ldexp(16367173, 72))


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_all_finite_arguments(assert_node: AssertNode, name: str) -> None:
    x = np.concatenate([of_every_exponent(12), near_multiples(), [WORST, -WORST, LARGEST, np.nextafter(LARGEST, 0)]])
    x = np.concatenate([x, np.finfo(np.float32).max * np.array([1, -1])]).astype(np.float32)
    np.random.default_rng(0).shuffle(x)  # ordinary and large arguments in one vector
    expected = np.array([exact(name, float(v)) for v in x])

    computed, *_ = assert_node(name, (x,), compare=False)

    off = units_off(computed, expected)
    assert np.max(off) <= 2, (x[np.argmax(off)], np.max(off))
    assert np.max(units_off(activate(x, name, ()), expected)) <= 1


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_large_neighbour_changes_nothing(assert_node: AssertNode, name: str) -> None:
    x = np.random.default_rng(1).uniform(-200, 200, 4096).astype(np.float32)
    mixed = x.copy()
    mixed[::5] = np.array([1e9, np.inf, np.nan, -1e30] * 1024, np.float32)[: mixed[::5].size]

    alone, beside = (assert_node(name, (values,), compare=False)[0] for values in (x, mixed))

    np.testing.assert_array_equal(np.delete(alone, np.s_[::5]), np.delete(beside, np.s_[::5]))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_infinities_and_nan(assert_node: AssertNode, name: str) -> None:
    assert np.isnan(assert_node(name, (np.array([np.inf, -np.inf, np.nan], np.float32),), compare=False)[0]).all()


@pytest.mark.parametrize("name", ["sin", "tan"])
def test_the_sign_of_zero(assert_node: AssertNode, name: str) -> None:
    x = np.array([0.0, -0.0] * 20, np.float32)
    have = assert_node(name, (x,), compare=False)[0]
    assert np.array_equal(np.signbit(have), np.signbit(x)) and not np.any(have)


@pytest.mark.long
@pytest.mark.parametrize("name", FUNCTIONS)
def test_any_finite_number_is_within_two_units(assert_node: AssertNode, name: str) -> None:
    bits = np.random.default_rng(4).integers(0, 1 << 32, 400_000, dtype=np.uint64).astype(np.uint32)
    x = bits.view(np.float32)[np.isfinite(bits.view(np.float32))]
    expected = np.array([exact(name, float(v)) for v in x])

    assert np.max(units_off(assert_node(name, (x,), compare=False)[0], expected)) <= 2
