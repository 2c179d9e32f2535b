"""The one emitter of sums of products: the page's data type and others over it, against NumPy."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import ir
from numpy.typing import NDArray

from mavcg.kernels.builder.emit import F64, I8, I32, KERNEL_TYPE, address, const, fma, operand
from mavcg.kernels.builder.lanes import shuffle
from mavcg.kernels.builder.product_loop import (
    CHAINS,
    COLUMNS,
    ROWS,
    ProductLoop,
    SumPosition,
    SumTile,
    TermPointers,
    nested_loops,
    single_products,
    term_address,
    window_loops,
)
from mavcg.runtime.kernel_call import KernelCall
from tests.conftest import examples
from tests.kernels.host_engine import host_engine

Array = NDArray[Any]
PAGE = Path(__file__).parents[3] / "docs" / "add-a-data-type.md"
ORDERS = list(permutations((CHAINS, ROWS, COLUMNS)))


def run(emit: Callable[[ir.IRBuilder], None], operands: Sequence[Array], end: int = 0) -> str:
    """Call a kernel with the arrays as its operands, 0 as begin and this end; return its IR text."""
    module = ir.Module("products")
    module.triple = llvm.get_default_triple()
    function = ir.Function(module, KERNEL_TYPE, "kernel")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    emit(b)
    b.ret_void()
    engine = host_engine(module)
    KernelCall(engine.get_function_address("kernel"), [array.ctypes.data for array in operands], 0)(0, end)
    return str(module)


def store_all(b: ir.IRBuilder, sums: Sequence[ir.Value], size: int) -> None:
    """Store the sums one after the other in operand 2. size: bytes of a sum."""
    for number, total in enumerate(sums):
        b.store(total, address(b, operand(b, 2), number * size), align=4)


def page_code() -> dict[str, Any]:
    """The names that the page's blocks of Python define."""
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(block, names)
    return names


@settings(max_examples=examples(12, 5))
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 11), st.integers(0, 99))
def test_the_data_type_of_the_page_computes_products(pixels: int, vectors: int, length: int, seed: int) -> None:
    source, tile = np.random.default_rng(seed), page_code()["i16_tile"]
    x = source.integers(-(2**15), 2**15, (pixels, 2 * length)).astype(np.int16)
    w = source.integers(-(2**15), 2**15, (2 * length, 4 * vectors)).astype(np.int16)
    packed = np.ascontiguousarray(w.reshape(length, 2, 4 * vectors).transpose(0, 2, 1))
    out = np.zeros((pixels, 4 * vectors), np.int32)

    def emit(b: ir.IRBuilder) -> None:
        store_all(b, tile(b, pixels, vectors, 4 * length, length, operand(b, 0), operand(b, 1)), 16)

    run(emit, (x, packed, out))

    np.testing.assert_array_equal(out, x.astype(np.int32) @ w.astype(np.int32))


def matrix_blocks(b: ir.IRBuilder, tile: SumTile, length: int) -> ProductLoop[TermPointers]:
    """Products of blocks of 2 x 8 and 8 x 2 bytes, as by smmla: a sum is a block of 2 x 2 i32."""
    block, wide = ir.VectorType(I8, 16), ir.VectorType(I32, 32)

    def blocks(pointer: ir.Value, count: int) -> Iterator[ir.Value]:
        return (b.load(address(b, pointer, n * length * 16), align=1, typ=block) for n in range(count))

    def multiply_add(total: ir.Value, x: ir.Value, w: ir.Value, row: int, column: int) -> ir.Value:
        rows, columns = ([side * 8 + k for side in sides for k in range(8)] for sides in ((0, 0, 1, 1), (0, 1, 0, 1)))
        products = b.mul(b.sext(shuffle(b, x, x, rows), wide), b.sext(shuffle(b, w, w, columns), wide))
        for k in range(8):
            total = b.add(total, shuffle(b, products, products, range(k, 32, 8)))
        return total

    return ProductLoop(
        b, tile, lambda at: blocks(at.left, tile.rows), lambda at: blocks(at.right, tile.columns), multiply_add
    )


@pytest.mark.sample(4)
@pytest.mark.parametrize("holds_left", [False, True])
@pytest.mark.parametrize("order", ORDERS)
def test_a_value_may_be_a_block_of_a_matrix(holds_left: bool, order: tuple[str, str, str]) -> None:
    source, length, tile = np.random.default_rng(1), 5, SumTile(3, 2, holds_left, 2, order)
    x = source.integers(-128, 128, (3, length, 2, 8)).astype(np.int8)
    w = source.integers(-128, 128, (2, length, 2, 8)).astype(np.int8)
    out = np.zeros((12, 2, 2), np.int32)

    def emit(b: ir.IRBuilder) -> None:
        def steps(index: ir.Value | int, count: int) -> Iterator[TermPointers]:
            left, right = (term_address(b, operand(b, n), index, 16, "block") for n in (0, 1))
            return (TermPointers(address(b, left, n * 16), address(b, right, n * 16)) for n in range(count))

        start = (ir.Constant(ir.VectorType(I32, 4), [0] * 4),) * 12
        store_all(b, matrix_blocks(b, tile, length).run(length, 2, steps, start), 16)

    run(emit, (x, w, out))

    exact = np.einsum("rlik,cljk->lrcij", x.astype(np.int32), w.astype(np.int32))
    for row in range(3):
        for column in range(2):
            for chain in range(2):  # steps are counted from the beginning of the unrolled ones
                number = tile.number(row, column, chain)
                np.testing.assert_array_equal(out[number], exact[chain::2, row, column].sum(axis=0))


def test_the_streamed_values_are_loaded_one_by_one() -> None:
    seen: list[str] = []

    def loads(name: str, count: int) -> Callable[[int], Iterator[str]]:
        def values(step: int) -> Iterator[str]:
            for n in range(count):
                seen.append(f"{name}{n}")
                yield f"{name}{n}"

        return values

    def multiply_add(total: Any, left: str, right: str, row: int, column: int) -> Any:
        seen.append(f"{left}*{right}")
        return total

    for holds_left, expected in (
        (False, "r0 r1 l0 l0*r0 l0*r1 l1 l1*r0 l1*r1"),
        (True, "l0 l1 r0 l0*r0 l1*r0 r1 l0*r1 l1*r1"),
    ):
        seen.clear()
        loop = ProductLoop(ir.IRBuilder(), SumTile(2, 2, holds_left), loads("l", 2), loads("r", 2), multiply_add)
        loop.terms([0], [0, 0, 0, 0])
        assert " ".join(seen) == expected


@pytest.mark.parametrize("terms", [0, 1, 7])
def test_the_number_of_terms_may_be_known_at_run_time_only(terms: int) -> None:
    x, w = np.random.default_rng(2).standard_normal((2, 7))
    out = np.array([0.5])

    def emit(b: ir.IRBuilder) -> None:
        def load(number: int, k: ir.Value) -> ir.Value:
            return b.load(address(b, operand(b, number), b.mul(k, const(8))), typ=F64)

        loop: ProductLoop[ir.Value] = single_products(
            b, partial(load, 0), partial(load, 1), lambda total, left, right: fma(b, left, right, total)
        )
        (total,) = loop.loop(const(0), b.function.args[2], 1, lambda k, count: [k], [ir.Constant(F64, 0.5)])
        b.store(total, operand(b, 2))

    run(emit, (x, w, out), terms)

    assert out[0] == pytest.approx(0.5 + x[:terms] @ w[:terms], rel=1e-14)


def test_the_loops_of_a_window_give_each_term_its_number() -> None:
    image, weights = np.arange(60, dtype=np.int32).reshape(5, 4, 3), np.arange(18, dtype=np.int32)
    out = np.zeros(1, np.int32)

    def emit(b: ir.IRBuilder) -> None:
        def load(pointer: ir.Value) -> ir.Value:
            return b.load(pointer, align=4, typ=I32)

        loop: ProductLoop[TermPointers] = single_products(
            b, lambda at: load(at.left), lambda at: load(at.right), lambda total, x, w: b.add(total, b.mul(x, w))
        )

        def channels(at: SumPosition, sums: tuple[ir.Value, ...]) -> tuple[ir.Value, ...]:
            panel = at.panel(b, operand(b, 1), 4)

            def steps(index: ir.Value | int, count: int) -> Iterator[TermPointers]:
                return (
                    TermPointers(
                        address(b, term_address(b, at.inputs, index, 4, "x"), 4 * n),
                        address(b, term_address(b, panel, index, 4, "w"), 4 * n),
                    )
                    for n in range(count)
                )

            return loop.run(3, 2, steps, sums)

        (total,) = window_loops(b, ((3, 48), (2, 12)), 3, operand(b, 0), channels, (const(0, I32),))
        b.store(total, operand(b, 2))

    run(emit, (image, weights, out))

    assert out[0] == (image[:3, :2].reshape(-1) * weights).sum()


def test_no_loops_are_what_is_inside() -> None:
    assert nested_loops(ir.IRBuilder(), (), "here", lambda at, level, i: at, lambda at, sums: (at, *sums), ()) == (
        "here",
    )
