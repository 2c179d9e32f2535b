"""Prefetch instructions."""

from llvmlite import ir

from mavcg.kernels.builder.emit import I8, I32, PTR, const

LINE_BYTES = 64  # size of a cache line


def prefetch(b: ir.IRBuilder, base: ir.Value, offset_bytes: int) -> None:
    """Emit a prefetch of the cache line at base + offset_bytes; the address may be invalid."""
    pointer = b.gep(base, [const(offset_bytes)], name="ahead", source_etype=I8)
    full = "llvm.prefetch.p0"
    kind = ir.FunctionType(ir.VoidType(), [PTR, I32, I32, I32])
    function = b.module.globals.get(full) or ir.Function(b.module, kind, full)
    b.call(function, [pointer, const(0, I32), const(3, I32), const(1, I32)])  # for a read, into all levels, data
