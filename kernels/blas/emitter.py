"""Beginnings of the BLAS library's kernels, and vectors of an element type."""

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from mavcg.specs.blas_blocks import ITEM_BYTES
from mavcg.specs.kernel import Machine


def begin_function(
    module: ir.Module, kind: ir.FunctionType, name: str, arguments: Sequence[str], written: str
) -> ir.IRBuilder:
    """Return a builder in the first block of a new function. written: the argument through which it alone writes."""
    function = ir.Function(module, kind, name)
    for argument, argument_name in zip(function.args, arguments, strict=True):
        argument.name = argument_name
    function.args[list(arguments).index(written)].add_attribute("noalias")
    return ir.IRBuilder(function.append_basic_block("entry"))


@dataclass(frozen=True)
class VectorEmitter:
    """Base of emitters over whole vectors of a core. dtype: "f32" or "f64"."""

    b: ir.IRBuilder
    machine: Machine
    dtype: str

    @property
    def item(self) -> int:
        """Size of an element, in bytes."""
        return ITEM_BYTES[self.dtype]

    @property
    def lanes(self) -> int:
        """Elements of a vector."""
        return self.machine.vector_bytes // self.item
