"""The IR text of a register tile's version for one core."""

from llvmlite import ir

from mavcg.choose.lowering.kernel_code import version_symbol
from mavcg.kernels.blas.product_tile import ProductTile
from mavcg.kernels.blas.tile_pass import emit_product_tile
from mavcg.kernels.builder.module_text import add_core_attributes
from mavcg.specs.kernel import Machine
from mavcg.toolchain.target import Target


def tile_text(tile: ProductTile, machine: Machine, target: Target) -> str:
    """Return the text, with the machine's name in that of the function, so that versions can be linked together."""
    module = ir.Module("tile")
    module.triple = target.llvm_triple
    emit_product_tile(module, machine, tile)
    named = version_symbol(tile.symbol, machine.name)
    return add_core_attributes(module, machine).replace(f'@"{tile.symbol}"', f'@"{named}"')
