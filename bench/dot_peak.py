"""Peak of a core's products of 8 bits: independent products of u8 and i8, in the instruction that kernels have."""

import ctypes
import time

import numpy as np
from llvmlite import ir

from bench.jit import Compiled
from mavcg.kernels.block_weights.integer_terms import GROUP, IntegerTerms, product_form
from mavcg.kernels.block_weights.packing import BlockFormat
from mavcg.kernels.builder.emit import I8, I16, I32, PTR, Values, address, const, for_range
from mavcg.kernels.builder.module_text import add_core_attributes
from mavcg.runtime.machines import packing_for
from mavcg.specs.kernel import Machine
from mavcg.toolchain.target import host_target

ACCUMULATORS, TURNS = 12, 100_000


class DotPeak:
    """A call that multiplies and adds 8-bit numbers in registers, and nothing else."""

    def __init__(self, machine: Machine) -> None:
        panel = packing_for(host_target()).lanes
        form = product_form(machine, panel, False, 4)
        module = ir.Module("peak")
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR]), "peak")
        b = ir.IRBuilder(function.append_basic_block("entry"))
        terms = IntegerTerms(b, form, BlockFormat(4, 32, panel, "f32", False), 1, 1, False)
        width = form.lanes * GROUP
        numbers, x = (
            b.load(address(b, function.args[0], i * width), align=1, typ=ir.VectorType(I8, width)) for i in (0, 1)
        )
        sums = terms.add_products(None, numbers, x).type

        def iteration(_: ir.Value, acc: Values) -> Values:
            return tuple(terms.add_products(total, numbers, x) for total in acc)

        start = [ir.Constant(sums, [i] * sums.count) for i in range(ACCUMULATORS)]
        acc = for_range(b, const(0), const(TURNS), 1, start, iteration)
        for i, total in enumerate(acc):
            size = sums.count * (2 if sums.element == I16 else 4)
            b.store(total, address(b, function.args[0], 2 * width + i * size), align=1)
        b.ret_void()
        assert sums.element in (I16, I32)
        self.compiled = Compiled(add_core_attributes(module, machine), machine)
        self.room = np.zeros(4096, np.uint8)
        self.run = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.compiled.address("peak"))
        self.products = width * ACCUMULATORS * TURNS

    def per_second(self, seconds: float = 0.05) -> float:
        """Return the products of a second of this thread's CPU time."""
        calls, start = 0, time.thread_time()
        while (took := time.thread_time() - start) < seconds or not calls:
            self.run(self.room.ctypes.data)
            calls += 1
        return self.products * calls / took
