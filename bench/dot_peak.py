"""Peaks of a core's products of 8 bits: independent products of numbers in registers, by vectors and by AMX's tiles."""

import ctypes
import time

import numpy as np
from llvmlite import ir

from bench.jit import Compiled
from mavcg.kernels.block_weights.integer_terms import GROUP, IntegerTerms, product_form
from mavcg.kernels.block_weights.packing import BlockFormat
from mavcg.kernels.builder.emit import I8, I16, I32, PTR, Values, address, const, for_range, repeat
from mavcg.kernels.builder.lanes import shuffle
from mavcg.kernels.builder.module_text import add_core_attributes
from mavcg.kernels.builder.x86_tiles import (
    ROW_BYTES,
    TILE_BYTES,
    TILE_ROWS,
    TileShape,
    add_tile_products,
    clear_tile,
    configure_tiles,
    release_tiles,
)
from mavcg.kernels.int8.register_tile import TILES
from mavcg.runtime.machines import packing_for
from mavcg.specs.kernel import Machine
from mavcg.toolchain.target import host_target

ACCUMULATORS, TURNS = 12, 100_000
SUM_TILES, TILE_TURNS = 4, 10_000
INSTRUCTIONS = {"vnni": "vpdpbusd", "maddubs": "vpmaddubsw", "sdot": "sdot", "mull": "smull"}  # by ProductForm.kind


class Peak:
    """A call that multiplies and adds 8-bit numbers in registers, and nothing else. products: of a call."""

    def __init__(self, module: ir.Module, machine: Machine, products: int) -> None:
        self.compiled = Compiled(add_core_attributes(module, machine), machine)
        self.room = np.zeros(4096, np.uint8)
        self.run = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.compiled.address("peak"))
        self.products = products

    def per_second(self, seconds: float = 0.05) -> float:
        """Return the products of a second of this thread's CPU time."""
        calls, start = 0, time.thread_time()
        while (took := time.thread_time() - start) < seconds or not calls:
            self.run(self.room.ctypes.data)
            calls += 1
        return self.products * calls / took


def _peak_function() -> tuple[ir.Module, ir.IRBuilder]:
    module = ir.Module("peak")
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR]), "peak")
    return module, ir.IRBuilder(function.append_basic_block("entry"))


class DotPeak(Peak):
    """The peak of a machine's dot products, or of its other products of vectors. instruction: its name."""

    def __init__(self, machine: Machine) -> None:
        panel = packing_for(host_target()).lanes
        form = product_form(machine, panel, False, 4)
        self.instruction = INSTRUCTIONS[form.kind]
        module, b = _peak_function()
        memory = b.function.args[0]
        terms = IntegerTerms(b, form, BlockFormat(4, 32, panel, "f32", False), 1, 1, False)
        width = form.lanes * GROUP
        numbers, x = (b.load(address(b, memory, i * width), align=1, typ=ir.VectorType(I8, width)) for i in (0, 1))
        sums = terms.add_products(None, numbers, x).type

        def changing(total: ir.Value) -> ir.Value:
            """Return a sum as numbers: products of constant numbers, with a sum apart, leave the loop."""
            return b.bitcast(shuffle(b, total, total, range(8 * width // sums.element.width)), numbers.type)

        def iteration(_: ir.Value, acc: Values) -> Values:
            return tuple(terms.add_products(total, changing(total), x) for total in acc)

        start = [ir.Constant(sums, [i] * sums.count) for i in range(ACCUMULATORS)]
        acc = for_range(b, const(0), const(TURNS), 1, start, iteration)
        for i, total in enumerate(acc):
            size = sums.count * (2 if sums.element == I16 else 4)
            b.store(total, address(b, memory, 2 * width + i * size), align=1)
        b.ret_void()
        assert sums.element in (I16, I32)
        super().__init__(module, machine, width * ACCUMULATORS * TURNS)


class TilePeak(Peak):
    """The peak of AMX's products of full tiles of 8-bit numbers, of a machine that has them. instruction: its name."""

    instruction = TILES["i8"]

    def __init__(self, machine: Machine) -> None:
        module, b = _peak_function()
        configure_tiles(b, dict.fromkeys(range(SUM_TILES + 2), TileShape(TILE_ROWS, ROW_BYTES)))
        for number in range(SUM_TILES + 2):
            clear_tile(b, number)

        def iteration(_: ir.Value) -> None:
            for number in range(SUM_TILES):
                add_tile_products(b, self.instruction, number, SUM_TILES, SUM_TILES + 1)

        repeat(b, 0, TILE_TURNS, iteration)
        release_tiles(b)
        b.ret_void()
        super().__init__(module, machine, TILE_ROWS * TILE_BYTES * SUM_TILES * TILE_TURNS)
