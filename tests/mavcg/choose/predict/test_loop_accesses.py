"""Loops and accesses that are read from the IR of kernels."""

from collections.abc import Iterator
from typing import Any

import pytest
from llvmlite import ir

from mavcg.choose.predict.affine_addresses import UNKNOWN
from mavcg.choose.predict.line_traffic import fills
from mavcg.choose.predict.loop_accesses import Loop, LoopAccess, read_loops, with_calls
from mavcg.hardware.machine import LINE_BYTES
from mavcg.kernels.builder.emit import kernel_name
from mavcg.kernels.registry import emit
from mavcg.specs.kernel import Machine

I64, I8, F32 = ir.IntType(64), ir.IntType(8), ir.FloatType()
NEON = Machine("generic", "aarch64", "generic", vector_bytes=16, vector_registers=32)
LARGE = 1 << 40


class Body:
    """A kernel of loops for tests: x and out are operands 0 and 1."""

    def __init__(self) -> None:
        self.module = ir.Module("m")
        pointer = ir.PointerType()
        kind = ir.FunctionType(ir.VoidType(), [pointer, I64, I64, pointer])
        self.function = ir.Function(self.module, kind, "k")
        for name, argument in zip(("args", "begin", "end", "scratch"), self.function.args, strict=True):
            argument.name = name
        self.b = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.operands = [
            self.b.load(self.b.gep(self.function.args[0], [I64(8 * n)], source_etype=I8), typ=pointer) for n in (0, 1)
        ]

    def loop(self, name: str, begin: ir.Value, end: ir.Value, step: int = 1) -> Iterator[ir.Value]:
        """Yield the counter of a loop, then close it."""
        b, before = self.b, self.b.block
        head, body, after = (self.function.append_basic_block(f"{name}_{part}") for part in ("head", "body", "end"))
        b.branch(head)
        b.position_at_end(head)
        counter = b.phi(I64, name)
        counter.add_incoming(begin, before)
        b.cbranch(b.icmp_signed("<", counter, end), body, after)
        b.position_at_end(body)
        yield counter
        counter.add_incoming(b.add(counter, I64(step)), b.block)
        b.branch(head)
        b.position_at_end(after)

    def load(self, operand: int, offset: ir.Value) -> ir.Value:
        return self.b.load(self.b.gep(self.operands[operand], [offset], source_etype=I8), typ=F32)

    def read(self, rows: int) -> Loop:
        self.b.ret_void()
        return read_loops(self.function, 0, rows)


def only(loop: Loop) -> LoopAccess:
    (access,) = [a for a in loop.all_accesses() if a.base.startswith("operand")]
    return access


def test_addresses_are_strides_of_the_loops_around_them() -> None:
    k = Body()
    begin, end = k.function.args[1:3]
    for row in k.loop("row", begin, end):
        for column in k.loop("column", I64(0), I64(10), step=2):
            k.load(0, k.b.add(k.b.mul(row, I64(400)), k.b.add(k.b.shl(column, I64(2)), I64(8))))
    loop = k.read(7)

    (rows,) = loop.inner
    (columns,) = rows.inner
    assert (rows.trips, rows.entries, columns.trips, columns.entries) == (7, 1, 5, 7)
    assert only(loop) == LoopAccess("operand 0", False, 4, 8, {"row_head": 400, "column_head": 8}, 35)


def test_a_divided_counter_counts_as_two_loops() -> None:
    k = Body()
    for row in k.loop("row", *k.function.args[1:3]):
        k.load(1, k.b.add(k.b.mul(k.b.udiv(row, I64(5)), I64(1000)), k.b.mul(k.b.urem(row, I64(5)), I64(64))))
    loop = k.read(20)

    assert only(loop).strides == {"row_head/": 1000, "row_head%": 64}
    assert [loop.inner[0].trips, loop.inner[0].inner[0].trips] == [4, 5]
    assert fills(loop, LARGE, {}) == {("operand 1", False): 20.0}


def test_a_remainder_by_hand_is_one_too() -> None:
    k = Body()
    for row in k.loop("row", *k.function.args[1:3]):
        whole = k.b.udiv(row, I64(5))
        k.load(0, k.b.mul(k.b.sub(row, k.b.mul(whole, I64(5))), I64(64)))
    loop = k.read(20)

    assert {name: stride for name, stride in only(loop).strides.items() if stride} == {"row_head%": 64}
    assert fills(loop, LARGE, {}) == {("operand 0", False): 5.0}


def test_clamped_counters_are_what_they_are_in_the_middle() -> None:
    k = Body()
    for row in k.loop("row", *k.function.args[1:3]):
        top = k.b.sub(row, I64(1))
        first = k.b.select(k.b.icmp_signed("<", top, I64(0)), I64(0), top)
        for tap in k.loop("tap", I64(0), I64(3)):
            k.load(0, k.b.mul(k.b.add(first, tap), I64(128)))
    strides = only(k.read(9)).strides

    assert strides == {"row_head": 128, "tap_head": 128}


def test_addresses_from_memory_are_unknown() -> None:
    k = Body()
    for row in k.loop("row", *k.function.args[1:3]):
        place = k.b.load(k.b.gep(k.operands[1], [k.b.mul(row, I64(8))], source_etype=I8), typ=I64)
        k.load(0, place)
    accesses = {a.base: a for a in k.read(4).all_accesses() if a.base.startswith("operand")}

    assert accesses["operand 1"].strides == {"row_head": 8}
    assert UNKNOWN in accesses["operand 0"].strides.values()


def test_calls_one_after_the_other_are_one_loop() -> None:
    k = Body()
    for row in k.loop("row", *k.function.args[1:3]):
        for column in k.loop("column", I64(0), I64(16)):
            k.load(0, k.b.add(k.b.mul(row, I64(64)), k.b.mul(column, I64(4))))
    loop = k.read(3)
    whole = with_calls(loop, 4.0)

    assert (whole.inner[0].trips, whole.inner[0].inner[0].entries) == (12, 12)
    assert fills(whole, LARGE, {}) == {("operand 0", False): 12.0}


@pytest.mark.parametrize(("in_ch", "out_ch", "height", "width"), [(16, 32, 6, 8), (8, 8, 10, 16)])
def test_a_convolution_touches_its_operands_once_in_a_large_cache(
    make: Any, in_ch: int, out_ch: int, height: int, width: int
) -> None:
    spec = make.conv(in_ch=in_ch, out_ch=out_ch, height=height, width=width, kernel=3)
    function = emit(ir.Module("kernels"), spec, NEON)
    counted = fills(read_loops(function, 0, spec.rows), LARGE, {})
    image = (height + 2) * (width + 2) * in_ch * 4 / LINE_BYTES
    out = height * width * out_ch * 4 / LINE_BYTES

    assert kernel_name(spec).startswith("conv2d")
    assert counted["operand 0", False] == pytest.approx(image, rel=0.05, abs=2)
    assert counted["operand 2", True] == pytest.approx(out, rel=0.05, abs=2)
    small = fills(read_loops(function, 0, spec.rows), 256, {})
    assert all(small[key] >= lines for key, lines in counted.items())
