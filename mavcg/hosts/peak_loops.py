"""Loops of independent products of numbers in registers, and nothing else: the peaks of a core's arithmetic.

A loop is compiled in this process for this machine. Its products are those of the kernels: f32, f64 and f16
multiply-adds, bf16 in pairs or matrices, bytes by dot products, by products of matrices, in pairs of 16 bits, or by
AMX's tiles.
"""

import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from llvmlite import ir

from mavcg.errors import MavcgError
from mavcg.kernels.block_weights.integer_terms import GROUP, IntegerTerms, product_form
from mavcg.kernels.block_weights.packing import BlockFormat
from mavcg.kernels.builder.bf16_products import LANES, add_matrix_products, add_pair_products
from mavcg.kernels.builder.emit import (
    F32,
    I8,
    I16,
    I32,
    PTR,
    TYPES,
    Values,
    address,
    call_intrinsic,
    const,
    fma,
    for_range,
    repeat,
    vector,
)
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
from mavcg.kernels.int8.micro_kernel import MADD
from mavcg.kernels.int8.register_tile import MATRIX, MATRIX_GROUP, TILES, form_of
from mavcg.runtime.machines import packing_for
from mavcg.specs.kernel import Machine
from mavcg.toolchain.target import host_target

ACCUMULATORS, ITERATIONS = 12, 20_000  # 12: two pipes of six cycles
SUM_TILES, TILE_ITERATIONS = 4, 2_000
TILE_BF16 = "tdpbf16ps"
INSTRUCTIONS = {"vnni": "vpdpbusd", "maddubs": "vpmaddubsw", "sdot": "sdot", "mull": "smull"}  # by ProductForm.kind
BYTES, WIDENED, BF16 = "i8", "i16", "bf16"  # as KernelSpec.arithmetic
_LOADED_BYTES = 64  # from one factor to the next in memory
_ROOM_BYTES = 4096


@dataclass(frozen=True)
class PeakLoop:
    """A compiled loop. products: multiply-adds of a call. instruction: that multiplies. engine keeps the code alive."""

    instruction: str
    products: int
    run: Callable[[int], object]
    engine: object
    room: np.ndarray[tuple[int], np.dtype[np.uint8]] = field(
        default_factory=lambda: np.zeros(_ROOM_BYTES, np.uint8), compare=False
    )

    def per_second(self, seconds: float = 0.05, clock: Callable[[], float] = time.thread_time) -> float:
        """Return the products of a second of this thread, the most of calls during `seconds`."""
        least, end = float("inf"), clock() + seconds
        while (began := clock()) < end or least == float("inf"):
            self.run(self.room.ctypes.data)
            least = min(least, clock() - began)
        return self.products / least


def peak_loop(machine: Machine, arithmetic: str, tiles: bool = True) -> PeakLoop:
    """Return the loop of the machine's fastest products of a type: f32, f64, f16, bf16, or i8 and i16 for bytes.

    tiles: False for vectors only, where the machine has tiles. machine: as this process may run it
    (binding.runnable_machine). Raises: MavcgError for f16 on a machine that does not compute in f16.
    """
    module = ir.Module("peak")
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR]), "peak")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    in_tiles = machine.bf16_tiles if arithmetic == BF16 else machine.int8_tiles and arithmetic in (BYTES, WIDENED)
    if tiles and in_tiles:
        instruction, products = _tile_products(b, TILE_BF16 if arithmetic == BF16 else TILES["i8"])
    elif arithmetic == WIDENED and machine.arch == "x86_64" and not machine.dot_product:
        instruction, products = _widened_products(b, machine)
    elif arithmetic in (BYTES, WIDENED):
        instruction, products = _byte_products(b, machine)
    elif arithmetic == BF16 and machine.bf16_dot:
        instruction, products = _bf16_products(b, machine)
    else:
        instruction, products = _float_products(b, machine, "f32" if arithmetic == BF16 else arithmetic)
    b.ret_void()
    engine = _compile(add_core_attributes(module, machine), machine)
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.get_function_address("peak"))
    return PeakLoop(instruction, products, run, engine)


def _compile(text: str, machine: Machine) -> "llvm.ExecutionEngine":  # type: ignore[name-defined]  # noqa: F821
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple().create_target_machine(
        cpu=machine.llvm_cpu, features=",".join(machine.llvm_features), opt=2, jit=True
    )
    parsed = llvm.parse_assembly(text)
    parsed.triple = target.triple
    engine = llvm.create_mcjit_compiler(parsed, target)
    engine.finalize_object()
    return engine


def _accumulate(
    b: ir.IRBuilder,
    sums: ir.Type,
    x_type: ir.Type,
    y_type: ir.Type,
    add: Callable[..., ir.Value],
    numbers: list[object],
) -> None:
    """Emit the loop: add(total, x, y) for each accumulator, with factors from memory that LLVM cannot know.

    numbers: that the accumulators begin with; of two that began alike LLVM would make one.
    """
    memory = b.function.args[0]
    x, y = (b.load(address(b, memory, i * _LOADED_BYTES), align=1, typ=typ) for i, typ in enumerate((x_type, y_type)))
    start = [ir.Constant(sums, [number] * sums.count) for number in numbers]

    def iteration(_: ir.Value, carried: Values) -> Values:
        x, *totals = carried
        results = []
        for total in totals:
            x = _opaque(b, x)
            results.append(add(total, x, y))
        return (x, *results)

    _, *totals = for_range(b, const(0), const(ITERATIONS), 1, [x, *start], iteration)
    for i, total in enumerate(totals):
        b.store(total, address(b, memory, (2 + i) * _LOADED_BYTES), align=1)


def _opaque(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return a value that LLVM takes to be another one, by assembly without an instruction: a product of it is neither
    hoisted out of the loop nor shared."""
    register = "v" if x.type.count * _bits(x.type) == 512 else "w" if host_target().arch == "aarch64" else "x"
    return b.asm(ir.FunctionType(x.type, [x.type]), "", f"={register},0", [x], side_effect=True)


def _bits(typ: ir.VectorType) -> int:
    width = {ir.FloatType(): 32, ir.DoubleType(): 64, ir.HalfType(): 16}
    return int(width.get(typ.element) or typ.element.width)


def _float_products(b: ir.IRBuilder, machine: Machine, dtype: str) -> tuple[str, int]:
    if dtype == "f16" and not machine.half:
        raise MavcgError(
            f"{machine.name}: does not compute in f16, so it has no peak of f16; build with --precision f32"
        )
    element = TYPES[dtype]
    kind = ir.VectorType(element, machine.vector_bytes * 8 // {"f32": 32, "f64": 64, "f16": 16}[dtype])
    _accumulate(b, kind, kind, kind, lambda total, x, y: fma(b, x, y, total), [float(i) for i in range(ACCUMULATORS)])
    name = "fmla" if machine.arch == "aarch64" else f"vfmadd231{ {'f32': 'ps', 'f64': 'pd', 'f16': 'ph'}[dtype] }"
    return name, kind.count * ACCUMULATORS * ITERATIONS


def _bf16_products(b: ir.IRBuilder, machine: Machine) -> tuple[str, int]:
    starts: list[object] = [float(i) for i in range(ACCUMULATORS)]
    if machine.arch == "x86_64":
        sums = vector(F32, machine.vector_bytes // 4)
        _accumulate(b, sums, sums, sums, lambda t, x, y: add_pair_products(b, machine, t, x, y), starts)
        return "vdpbf16ps", 2 * sums.count * ACCUMULATORS * ITERATIONS
    sums, terms = vector(F32, LANES), vector(I32, LANES)
    _accumulate(b, sums, terms, terms, lambda t, x, y: add_matrix_products(b, machine, t, x, y), starts)
    return "bfmmla", 4 * LANES * ACCUMULATORS * ITERATIONS


def _byte_products(b: ir.IRBuilder, machine: Machine) -> tuple[str, int]:
    panel = packing_for(host_target()).lanes
    starts: list[object] = list(range(ACCUMULATORS))
    if machine.matrix_product:
        kind = form_of(machine, panel, "i8", packed=MATRIX_GROUP).kind
        assert kind in MATRIX
        sums, factors = vector(I32, 4), vector(I8, 16)
        name = f"llvm.aarch64.neon.{kind}.v4i32.v16i8"
        _accumulate(b, sums, factors, factors, lambda t, x, y: call_intrinsic(b, name, sums, t, x, y), starts)
        return kind, 4 * MATRIX_GROUP * ACCUMULATORS * ITERATIONS
    form = product_form(machine, panel, False, 4)
    terms = IntegerTerms(b, form, BlockFormat(4, 32, panel, "f32", False), 1, 1, False)
    width = form.lanes * GROUP
    factors = vector(I8, width)
    sums = (
        vector(I32, form.lanes) if form.kind in ("sdot", "vnni") else vector(I16, width // (1 + (form.kind != "mull")))
    )
    _accumulate(b, sums, factors, factors, lambda total, x, y: terms.add_products(total, y, x), starts)
    return INSTRUCTIONS[form.kind], width * ACCUMULATORS * ITERATIONS


def _widened_products(b: ir.IRBuilder, machine: Machine) -> tuple[str, int]:
    """Emit products of bytes that were widened to i16, added in pairs."""
    lanes = form_of(machine, packing_for(host_target()).lanes, "u8").lanes
    sums, factors, name = vector(I32, lanes), vector(I16, 2 * lanes), f"llvm.x86.{MADD[lanes]}"
    starts: list[object] = list(range(ACCUMULATORS))
    _accumulate(b, sums, factors, factors, lambda t, x, y: b.add(t, call_intrinsic(b, name, sums, x, y)), starts)
    return "vpmaddwd", 2 * lanes * ACCUMULATORS * ITERATIONS


def _tile_products(b: ir.IRBuilder, instruction: str) -> tuple[str, int]:
    configure_tiles(b, dict.fromkeys(range(SUM_TILES + 2), TileShape(TILE_ROWS, ROW_BYTES)))
    for number in range(SUM_TILES + 2):
        clear_tile(b, number)

    def iteration(_: ir.Value) -> None:
        for number in range(SUM_TILES):
            add_tile_products(b, instruction, number, SUM_TILES, SUM_TILES + 1)

    repeat(b, 0, TILE_ITERATIONS, iteration)
    release_tiles(b)
    terms = TILE_BYTES // (2 if instruction == TILE_BF16 else 1)
    return instruction, TILE_ROWS * terms * SUM_TILES * TILE_ITERATIONS
