"""Kernels that only move elements: reshape, broadcast_to, concat, slice, between views of all kinds."""

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import ir
from numpy.typing import NDArray

from mavcg.graph import DTYPES
from mavcg.kernels.builder.nest import Nest
from mavcg.kernels.tensor.copies import CopySpec, emit_copy
from mavcg.runtime.kernel_call import KernelCall
from mavcg.specs.kernel import View
from tests.conftest import examples
from tests.kernels.conftest import machines_of_all_widths
from tests.kernels.host_engine import host_engine

Array = NDArray[Any]
AssertNode = Callable[..., list[Array]]
Inside = Callable[..., View]
FEW = settings(max_examples=examples(12, 5))


def counted(dtype: str, shape: tuple[int, ...]) -> Array:
    """Elements that differ from each other as far as the type can."""
    return np.arange(int(np.prod(shape)), dtype=np.int64).astype(DTYPES[dtype]).reshape(shape)


@pytest.mark.parametrize("dtype", ["f32", "i8", "f16", "i64", "bool"])
def test_reshape_between_lines_with_gaps(assert_node: AssertNode, inside: Inside, dtype: str) -> None:
    x = counted(dtype, (6, 70))
    assert_node("reshape", (x,), shape=(4, 105), views={"x0": inside(dtype, (6, 70))})
    assert_node("reshape", (x,), shape=(4, 105), views={"y": inside(dtype, (4, 105))})


@pytest.mark.parametrize(
    ("before", "after"),
    [((4, 6), (3, 8)), ((4, 6), (2, 2, 6)), ((6, 4), (2, 3, 2, 2)), ((5, 1, 7), (7, 5)), ((1,), ())],
)
def test_reshape_with_gaps_on_both_sides(
    assert_node: AssertNode, inside: Inside, before: tuple[int, ...], after: tuple[int, ...]
) -> None:
    views = {"x0": inside("f32", before, 2)} | ({"y": inside("f32", after, 5)} if after else {})
    assert_node("reshape", (counted("f32", before),), shape=after, views=views)


@FEW
@given(data=st.data())
def test_reshape_of_any_shapes(assert_node: AssertNode, inside: Inside, data: st.DataObject) -> None:
    factors = data.draw(st.lists(st.sampled_from([1, 2, 3, 5]), min_size=1, max_size=5))

    def shape() -> tuple[int, ...]:
        order = data.draw(st.permutations(factors))
        cut = data.draw(st.integers(0, len(order)))
        return (int(np.prod(order[:cut])), *order[cut:])

    before, after = shape(), shape()
    views = {"x0": inside("f32", before, 1), "y": inside("f32", after, 2)}
    assert_node("reshape", (counted("f32", before),), shape=after, views=views)


def test_broadcast(assert_node: AssertNode, inside: Inside) -> None:
    assert_node("broadcast_to", (counted("f32", (3, 1, 5)),), shape=(2, 3, 4, 5))
    assert_node("broadcast_to", (counted("i8", (3, 1)),), shape=(3, 1100))
    assert_node("broadcast_to", (counted("i64", ()),), shape=(7,), views={"y": inside("i64", (7,))})
    assert_node("broadcast_to", (counted("f32", (5, 1)),), shape=(5, 3), views={"y": View("f32", (5, 3), (1, 5))})


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_concat(assert_node: AssertNode, inside: Inside, axis: int) -> None:
    lengths = (3, 1, 40, 0, 1300 if axis == 2 else 2)
    parts = [counted("f32", tuple(n if i == axis else 3 for i in range(3))) + k for k, n in enumerate(lengths)]
    assert_node("concat", parts, axis=axis)
    whole = tuple(sum(lengths) if i == axis else 3 for i in range(3))
    views = {"y": inside("f32", whole), "x2": inside("f32", parts[2].shape)}
    assert_node("concat", parts, axis=axis, views=views)


@pytest.mark.parametrize(
    ("starts", "stops", "steps"),
    [
        ((0, 0, 0), (5, 6, 70), (1, 1, 1)),
        ((1, 2, 3), (4, 6, 60), (1, 1, 1)),
        ((4, 5, 69), (-1, -1, -1), (-1, -2, -1)),
        ((0, 1, 0), (5, 6, 70), (2, 3, 7)),
        ((2, 0, 0), (2, 6, 70), (1, 1, 1)),
    ],
)
def test_slice(
    assert_node: AssertNode, inside: Inside, starts: tuple[int, ...], stops: tuple[int, ...], steps: tuple[int, ...]
) -> None:
    x = counted("i32", (5, 6, 70))
    assert_node("slice", (x,), starts=starts, stops=stops, steps=steps, views={"x0": inside("i32", x.shape)})


def test_bytes_of_many_rows(assert_node: AssertNode) -> None:
    assert_node("slice", (counted("u8", (3, 5000)),), starts=(0, 7), stops=(3, 4999), steps=(1, 1))


@FEW
@given(data=st.data())
def test_slice_of_any_range(assert_node: AssertNode, inside: Inside, data: st.DataObject) -> None:
    lengths = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    ranges = []
    for n in lengths:
        step = data.draw(st.sampled_from([1, 2, 3, -1, -2, -7]))
        first = data.draw(st.integers(0, n - 1))
        ranges.append((first, data.draw(st.integers(first, n) if step > 0 else st.integers(-1, first)), step))
    starts, stops, steps = zip(*ranges, strict=True)
    x = counted("f32", tuple(lengths))
    assert_node("slice", (x,), starts=starts, stops=stops, steps=steps, views={"x0": inside("f32", x.shape)})


@pytest.mark.parametrize(
    ("dtype", "channels", "most"), [("f32", 3, 80), ("f32", 3, 400), ("i8", 3, 80), ("f16", 2, 80), ("i64", 4, 80)]
)
def test_channels_of_images_of_any_size_are_interleaved(dtype: str, channels: int, most: int) -> None:
    """Images C, H, W copied into rows of W, C with a gap, whose lengths and strides are words of the run.

    A row of work is several rows of an image, or a part of one.
    """
    machine, item = machines_of_all_widths()[-1], DTYPES[dtype].itemsize
    shape, paths = (most, most, channels), ("shape.0", "shape.1", "strides.0.0", "strides.0.2", "strides.1.0")
    nest = Nest(shape, ((most, 1, most**2), (most * channels + 1, channels, 1)))
    module = ir.Module("copy")
    module.triple = llvm.get_default_triple()
    words = tuple((f"nest.{path}", number) for number, path in enumerate(paths))
    name = emit_copy(module, CopySpec(item, nest, words=words), machine).name
    engine = host_engine(module)
    for height, width in ((2, 1), (3, 15), (1, 16), (5, 33), (2, 63), (3, 80), (2, most)):
        x = counted(dtype, (channels, height, width))
        out = np.zeros((height, width * channels + 1), x.dtype)
        run = np.array([height, width, width, height * width, width * channels + 1], np.uint32)
        places = [x.ctypes.data, out.ctypes.data, *(run.ctypes.data + 4 * number for number in range(len(paths)))]
        at, block = nest.row_split
        rows = height * -(-width // block) if at else -(-height // block)
        KernelCall(engine.get_function_address(name), places, 0)(0, rows)
        expected = np.zeros_like(out)
        expected[:, :-1] = x.transpose(1, 2, 0).reshape(height, -1)
        np.testing.assert_array_equal(out, expected)
