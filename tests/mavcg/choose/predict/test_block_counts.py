"""Counts of blocks against what the loops must do, and against the arithmetic that the operator needs."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import ir

from mavcg.choose.predict.block_counts import DataDependent, count_blocks
from mavcg.choose.predict.mix import mixes_of
from mavcg.kernels.builder.emit import F32, I64, KERNEL_TYPE, const, repeat
from mavcg.kernels.registry import emit
from tests.conftest import examples


def function() -> tuple[ir.Function, ir.IRBuilder]:
    made = ir.Function(ir.Module("m"), KERNEL_TYPE, "k")
    for argument, name in zip(made.args, ("args", "begin", "end", "scratch"), strict=True):
        argument.name = name
    return made, ir.IRBuilder(made.append_basic_block("entry"))


@settings(max_examples=examples(40, 5))
@given(begin=st.integers(0, 5), count=st.integers(0, 6), inner=st.integers(0, 7), step=st.integers(1, 4))
def test_nested_loops_run_as_often_as_python_s(begin: int, count: int, inner: int, step: int) -> None:
    made, b = function()
    repeat(b, made.args[1], made.args[2], lambda i: repeat(b, i, inner, lambda j: None, "in", step), "out")
    b.ret_void()

    counts = count_blocks(made, begin, begin + count)

    turns = [len(range(i, inner, step)) for i in range(begin, begin + count)]
    assert counts["out_body"] == count and counts["in_body"] == sum(turns)
    assert counts["out_head"] == count + 1 and counts["in_head"] == sum(turns) + count


def test_a_branch_on_what_is_in_memory_is_not_followed() -> None:
    made, b = function()
    value = b.load(made.args[0], typ=I64)
    with b.if_then(b.icmp_signed("<", value, const(3))):
        pass
    b.ret_void()

    with pytest.raises(DataDependent, match="k: entry"):
        count_blocks(made, 0, 1)


@settings(max_examples=examples(20, 5))
@given(rows=st.integers(0, 5), iterations=st.floats(0, 9))
def test_a_loop_whose_bounds_are_loaded_runs_as_often_as_its_data_say(rows: int, iterations: float) -> None:
    made, b = function()
    begin, end = b.load(made.args[0], typ=I64), b.load(made.args[0], typ=I64)
    repeat(b, const(0), made.args[2], lambda i: repeat(b, begin, end, lambda j: None, "entries"), "row")
    b.ret_void()

    if rows:
        with pytest.raises(DataDependent, match="entries"):
            count_blocks(made, 0, rows)
    counts = count_blocks(made, 0, rows, iterations)

    assert counts["entries_body"] == pytest.approx(rows * iterations)
    assert counts["entries_head"] == pytest.approx(rows * (iterations + 1)) and counts["row_body"] == rows


def test_a_branch_after_a_division_and_a_choice() -> None:
    made, b = function()
    half = b.sdiv(b.sub(made.args[1], const(7)), const(2))  # towards zero, as the machine's
    low = b.select(b.icmp_signed("<", half, const(-1)), const(1), const(0))
    with b.if_then(b.icmp_signed("==", low, const(1))):
        b.load(made.args[0], typ=F32)
    b.ret_void()

    assert count_blocks(made, 4, 9)["entry.if"] == 0  # (4 - 7) / 2 is -1
    assert count_blocks(made, 3, 9)["entry.if"] == 1


def lanes_multiplied(made: ir.Function, make: Any, begin: int, end: int) -> float:
    counts, mixes = count_blocks(made, begin, end), mixes_of(made, make.machine)
    vectors = sum(counts[name] * mix.fma for name, mix in mixes.items())
    return vectors * float(make.machine.vector_bytes) / 4


@pytest.mark.parametrize(
    ("height", "width", "in_ch", "kernel"), [(6, 10, 16, 3), (1, 1, 40, 1), (9, 17, 5, 1), (5, 3, 8, 5)]
)
def test_a_convolution_does_each_multiply_accumulate_once(
    make: Any, height: int, width: int, in_ch: int, kernel: int
) -> None:
    spec = make.conv(height, width, in_ch, 32, kernel)
    made = emit(ir.Module("m"), spec, make.machine)

    macs = height * width * in_ch * kernel * kernel * 32
    assert lanes_multiplied(made, make, 0, spec.rows) == macs
    parts = [lanes_multiplied(made, make, row, row + 1) for row in range(spec.rows)]
    assert sum(parts) == macs
