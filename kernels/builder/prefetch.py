"""Prefetches of memory before it is used."""

from llvmlite import ir

from mavcg.kernels.builder.emit import I8, I32, PTR, const

LINE_BYTES = 64  # of a cache line


def prefetch(b: ir.IRBuilder, base: ir.Value, offset_bytes: int) -> None:
    """Prefetch the cache line at base + offset_bytes, which need not be the program's."""
    pointer = b.gep(base, [const(offset_bytes)], name="ahead", source_etype=I8)
    full = "llvm.prefetch.p0"
    kind = ir.FunctionType(ir.VoidType(), [PTR, I32, I32, I32])
    function = b.module.globals.get(full) or ir.Function(b.module, kind, full)
    b.call(function, [pointer, const(0, I32), const(3, I32), const(1, I32)])  # to read, into all levels, data
