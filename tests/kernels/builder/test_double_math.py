"""exp, log, clip and remainders of f64 against Python's own."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

Array = NDArray[Any]
AssertNode = Callable[..., list[Array]]
INF, NAN = math.inf, math.nan
TINY = 5e-324


def test_exp(assert_node: AssertNode) -> None:
    x = np.concatenate([np.linspace(-745, 709.7, 4001), [0.0, -0.0, 1e-300, 710.0, -1e300, INF, -INF, NAN]])
    assert_node("exp", (x,), rtol=2e-15, atol=TINY)


def test_log(assert_node: AssertNode) -> None:
    x = np.concatenate(
        [np.geomspace(1e-320, 1.7e308, 3001), np.linspace(0.6, 1.6, 2001), [1.0, 0.0, -0.0, -1.0, TINY, INF, -INF, NAN]]
    )
    with np.errstate(all="ignore"):
        assert_node("log", (x,), rtol=2e-15)


def test_clip(assert_node: AssertNode) -> None:
    x = np.array([-INF, -2.0, 0.3, 7.0, INF, NAN] * 3)
    assert_node("clip", (x,), lo=-1.5, hi=0.5)
    assert_node("clip", (x,), lo=-INF, hi=INF)


@pytest.mark.parametrize("like_c", [True, False])
def test_remainders_are_exact(assert_node: AssertNode, like_c: bool) -> None:
    rng = np.random.default_rng(1)
    random = rng.standard_normal(300) * 10.0 ** rng.integers(-310, 300, 300)
    edges = [0.0, -0.0, TINY, -TINY, 3 * TINY, 2.0**-1022, -(2.0**-1022), 1.0, -1.0, 0.1, 1.7e308, 5.3, -4.3, 2.1]
    values = np.array([*random, *edges])
    x, y = np.tile(values, len(edges)), np.repeat([e if e else 1.0 for e in edges], len(values))

    (computed, *_) = assert_node("mod", (x, y), compare=False, fmod=int(like_c))

    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(computed, np.fmod(x, y) if like_c else np.mod(x, y))


def test_remainders_where_there_is_none(assert_node: AssertNode) -> None:
    x, y = np.array([1.0, INF, 5.0, NAN, -2.0]), np.array([0.0, 2.0, INF, 1.0, INF])

    (computed, *_) = assert_node("mod", (x, y), compare=False, fmod=1)

    np.testing.assert_array_equal(computed, [NAN, NAN, 5.0, NAN, -2.0])
