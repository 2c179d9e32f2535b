"""AMX's tile registers in emitters: their shapes, loads, stores, and products.

A processor with AMX has 8 tile registers of up to 16 rows of up to 64 bytes. A product adds A x B to a tile of sums of
32 bits: A has a row of terms for each row of sums, and B, for each four bytes of A's rows, a row with these terms of
all columns of the sums. LLVM allocates no tile registers here: a kernel names them by number and sets their shapes, as
LLVM would spill tiles and set shapes anew for each of them.

Source: Intel, "Architecture Instruction Set Extensions Programming Reference" (319433), chapter 3; LLVM
llvm/include/llvm/IR/IntrinsicsX86.td.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from llvmlite import ir

from mavcg.kernels.builder.emit import I8, PTR, call_intrinsic, const, index_value

TILE_REGISTERS, TILE_ROWS, ROW_BYTES = 8, 16, 64
TILE_BYTES = TILE_ROWS * ROW_BYTES
_VOID = ir.VoidType()
_CONFIG_BYTES, _PALETTE, _ROW_BYTES_AT, _ROWS_AT = 64, 1, 16, 48  # layout of the operand of LDTILECFG


@dataclass(frozen=True)
class TileShape:
    """The shape of a tile register. rows: 1 to TILE_ROWS. row_bytes: a multiple of 4, at most ROW_BYTES."""

    rows: int
    row_bytes: int


def configure_tiles(b: ir.IRBuilder, shapes: Mapping[int, TileShape]) -> None:
    """Emit the configuration of the tile registers, by number; all tiles become 0, and others cannot be used.

    A kernel that configures tiles releases them before it returns.
    """
    config = bytearray(_CONFIG_BYTES)
    config[0] = _PALETTE
    for number, shape in shapes.items():
        at = _ROW_BYTES_AT + 2 * number
        config[at : at + 2] = shape.row_bytes.to_bytes(2, "little")
        config[_ROWS_AT + number] = shape.rows
    memory = aligned_memory(b, _CONFIG_BYTES, "tile_config")
    b.store(ir.Constant(ir.VectorType(I8, _CONFIG_BYTES), list(config)), memory, align=_CONFIG_BYTES)
    call_intrinsic(b, "llvm.x86.ldtilecfg", _VOID, memory)


def aligned_memory(b: ir.IRBuilder, size: int, name: str) -> ir.Value:
    """Emit the reservation of memory of the stack that begins with a cache line; return its address."""
    memory = b.alloca(ir.ArrayType(I8, size), name=name)
    memory.align = ROW_BYTES
    memory.type = PTR  # llvmlite gives it a type of its own
    return memory


def release_tiles(b: ir.IRBuilder) -> None:
    """Emit the release of all tile registers, so that a switch of threads saves none of them."""
    call_intrinsic(b, "llvm.x86.tilerelease", _VOID)


def clear_tile(b: ir.IRBuilder, number: int) -> None:
    """Emit a tile's setting to 0."""
    call_intrinsic(b, "llvm.x86.tilezero", _VOID, const(number, I8))


def load_tile(b: ir.IRBuilder, number: int, pointer: ir.Value, step_bytes: ir.Value | int) -> None:
    """Emit the load of a tile. step_bytes: distance from a row to the next."""
    _move(b, "llvm.x86.tileloadd64", number, pointer, step_bytes)


def store_tile(b: ir.IRBuilder, number: int, pointer: ir.Value, step_bytes: ir.Value | int) -> None:
    """Emit the store of a tile. step_bytes: distance from a row to the next."""
    _move(b, "llvm.x86.tilestored64", number, pointer, step_bytes)


def _move(b: ir.IRBuilder, name: str, number: int, pointer: ir.Value, step_bytes: ir.Value | int) -> None:
    assert pointer.type == PTR
    call_intrinsic(b, name, _VOID, const(number, I8), pointer, index_value(step_bytes))


def add_tile_products(b: ir.IRBuilder, instruction: str, sums: int, left: int, right: int) -> None:
    """Emit sums += left x right, of tile registers by number. instruction: tdpbusd, tdpbssd, tdpbf16ps and others."""
    call_intrinsic(b, f"llvm.x86.{instruction}", _VOID, *(const(number, I8) for number in (sums, left, right)))
