"""Products of f64 and of whole numbers against the reference."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mavcg.graph import DTYPES
from mavcg.specs.kernel import View

Array = NDArray[Any]
AssertNode = Callable[..., list[Array]]
Inside = Callable[..., View]


def numbers(dtype: str, *shape: int) -> Array:
    rng = np.random.default_rng(len(shape) + sum(shape))
    return (rng.standard_normal(shape) * 9).astype(DTYPES[dtype])


@pytest.mark.spread
@pytest.mark.parametrize("dtype", ["f64", "i32", "i64", "u32"])
@pytest.mark.parametrize(
    ("a", "b", "transposed"),
    [((3, 4), (4, 5), False), ((2, 1, 3, 4), (5, 7, 4), True), ((1, 1), (1, 1), False), ((2, 0), (0, 3), False)],
)
def test_matmul(assert_node: AssertNode, dtype: str, a: tuple[int, ...], b: tuple[int, ...], transposed: bool) -> None:
    arrays = numbers(dtype, *a), numbers(dtype, *b), None, None
    assert_node("matmul", arrays, rtol=1e-13, atol=1e-12, transpose_b=transposed)


def test_matmul_with_all_that_is_added(assert_node: AssertNode, inside: Inside) -> None:
    x, w, bias, residual = numbers("f64", 5, 3), numbers("f64", 3, 6), numbers("f64", 6), numbers("f64", 5, 6)
    views = {name: inside("f64", shape) for name, shape in (("x0", (5, 3)), ("x3", (5, 6)), ("y", (5, 6)))}
    assert_node("matmul", (x, w, bias, residual), rtol=1e-13, atol=1e-12, views=views, constants=(1,), act="relu")


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_conv2d(assert_node: AssertNode, groups: int) -> None:
    x, w, bias = numbers("f64", 2, 7, 8, 4), numbers("f64", 8, 3, 2, 4 // groups), numbers("f64", 8)
    residual = numbers("f64", 2, 2, 7, 8)
    assert_node(
        "conv2d",
        (x, w, bias, residual),
        rtol=1e-13,
        atol=1e-12,
        constants=(1, 2),
        stride=(2, 1),
        dilation=(2, 1),
        groups=groups,
        act="clip",
        act_args=(-50.0, 50.0),
    )


def test_whole_numbers_wrap_around(assert_node: AssertNode) -> None:
    large = np.full((2, 3), 2**31 - 1, np.int32)
    (computed, *_) = assert_node("matmul", (large, large.T.copy(), None, None), compare=False)
    assert computed.tolist() == [[3, 3], [3, 3]]
