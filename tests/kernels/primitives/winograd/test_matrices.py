"""Winograd's matrices in exact arithmetic, and the operations that they become."""

import ctypes
import re
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from llvmlite import ir

from mavcg.kernels.builder.emit import F32, PTR, address
from mavcg.kernels.primitives.winograd.matrices import Matrix, as_array, filtering, operations_of, transform_weights
from tests.kernels.host_engine import host_engine

KINDS = ((2, 3), (4, 3), (6, 3), (2, 5), (4, 5))


@pytest.mark.parametrize(("m", "k"), KINDS)
def test_outputs_are_the_filter_at_each_place_exactly(m: int, k: int) -> None:
    matrices = filtering(m, k)

    assert (len(matrices.inverse), len(matrices.weights), len(matrices.inputs), matrices.t) == (
        m,
        m + k - 1,
        m + k - 1,
        m + k - 1,
    )
    for output in range(m):
        for tap in range(k):
            for position in range(matrices.t):
                total = sum(
                    matrices.inverse[output][j] * matrices.weights[j][tap] * matrices.inputs[j][position]
                    for j in range(matrices.t)
                )
                assert total == int(position == output + tap)


@pytest.mark.parametrize(("m", "k"), KINDS)
def test_entries_of_both_transforms_are_exact_in_f32(m: int, k: int) -> None:
    matrices = filtering(m, k)

    for row in (*matrices.inverse, *matrices.inputs):
        assert all(Fraction(float(np.float32(float(entry)))) == entry for entry in row)


def test_the_smallest_is_that_of_the_books() -> None:
    matrices = filtering(2, 3)

    assert as_array(matrices.inverse).tolist() == [[1, 1, 1, 0], [0, 1, -1, 1]]
    assert as_array(matrices.weights).tolist() == [[-1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]]
    assert as_array(matrices.inputs).tolist() == [[-1, 0, 1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, -1, 0, 1]]


@pytest.mark.parametrize(("m", "k"), [(3, 3), (8, 3), (0, 5)])
def test_a_number_of_products_without_points_is_refused(m: int, k: int) -> None:
    with pytest.raises(ValueError, match=rf"F\({m}, {k}\): m and k from 1, and 4, 6, 8 products"):
        filtering(m, k)


def test_transformed_weights_give_the_convolution() -> None:
    rng = np.random.default_rng(0)
    weights, image = rng.standard_normal((3, 3, 3, 2)), rng.standard_normal((6, 6, 2))
    matrices = filtering(4, 3)
    inverse, inputs = as_array(matrices.inverse), as_array(matrices.inputs)
    expected = [[np.einsum("oyxi,yxi->o", weights, image[y : y + 3, x : x + 3]) for x in range(4)] for y in range(4)]

    squares = np.einsum(
        "stoi,sti->sto", transform_weights(4, weights, True), np.einsum("sy,tx,yxi->sti", inputs, inputs, image)
    )
    np.testing.assert_allclose(np.einsum("ys,xt,sto->yxo", inverse, inverse, squares), expected, atol=1e-12)

    by_row = transform_weights(4, weights, False)  # [t, O, KH, I]
    lines = np.einsum("tx,yxi->yti", inputs, image)
    sums = [np.einsum("toyi,yti->to", by_row, lines[y : y + 3]) for y in range(4)]
    np.testing.assert_allclose(np.einsum("xt,yto->yxo", inverse, np.array(sums)), expected, atol=1e-12)


def compiled(matrix: Matrix) -> tuple[str, Callable[[int, int], None], object]:
    """(IR text, a function of pointers to inputs and outputs, what keeps it alive)."""
    module = ir.Module("linear")
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR, PTR]), "linear")
    b = ir.IRBuilder(function.append_basic_block())
    x, y = function.args
    values = [b.load(address(b, x, 4 * i), align=4, typ=F32) for i in range(len(matrix[0]))]
    for i, value in enumerate(operations_of(matrix).times(b, values)):
        b.store(value, address(b, y, 4 * i), align=4)
    b.ret_void()
    engine = host_engine(module)
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(engine.get_function_address("linear"))
    return str(module), call, engine


# As they stand they have as many operations as entries that are not 0, less one a row: F(6, 3) 36 and 32.
@pytest.mark.parametrize(
    ("m", "k", "which", "count"),
    [
        (2, 3, "inputs", 4),
        (4, 3, "inputs", 12),
        (6, 3, "inputs", 24),
        (2, 3, "inverse", 4),
        (4, 3, "inverse", 12),
        (6, 3, "inverse", 20),
        (4, 5, "inverse", 16),
    ],
)
def test_products_with_the_matrices_take_few_operations(m: int, k: int, which: str, count: int) -> None:
    matrix: Matrix = getattr(filtering(m, k), which)
    text, call, _engine = compiled(matrix)
    x = np.random.default_rng(1).integers(-64, 64, len(matrix[0])).astype(np.float32)
    y = np.zeros(len(matrix), np.float32)
    call(x.ctypes.data, y.ctypes.data)

    assert (
        sum(len(re.findall(word, text)) for word in (" fadd ", " fsub ", " fmul ", " fneg ", r"call .*llvm\.fma"))
        == count
    )
    np.testing.assert_allclose(y, as_array(matrix) @ x.astype(np.float64), rtol=1e-6, atol=1e-5)
