"""Which family lowers which operator and emits which spec."""

from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType

from llvmlite import ir

from mavcg.errors import MavcgError
from mavcg.graph import Graph, Node
from mavcg.kernel import KernelSpec, Machine, Packing, Step, View
from mavcg.kernels import (
    arg_reduce,
    conv2d,
    conv_transpose,
    copies,
    eight_bit,
    elementwise,
    gather,
    matmul,
    normalize,
    pad,
    plain_product,
    pool,
    primitive_step,
    qconv2d,
    qmatmul,
    reduce,
    resample,
    softmax,
    transpose,
)
from mavcg.kernels.primitives.registry import primitive_emitters
from mavcg.tile_plan import MacroTile

# lower(node, graph, views of its inputs and outputs by tensor name, packing): the constants are in the graph.
Lower = Callable[[Node, Graph, Mapping[str, View], Packing], tuple[Step, ...]]
# emit(module, spec, machine): adds one function, named by emit.kernel_name(spec).
Emit = Callable[[ir.Module, KernelSpec, Machine], ir.Function]
# The same with a macro-tile: every module may have EMIT_TILED beside EMIT.
TiledEmit = Callable[[ir.Module, KernelSpec, Machine, MacroTile], ir.Function]


# Every module with LOWER, operator -> Lower, and EMIT, class of spec -> Emit.
_FAMILIES: tuple[ModuleType, ...] = (
    conv2d,
    conv_transpose,
    matmul,
    pad,
    plain_product,
    pool,
    primitive_step,
    qconv2d,
    qmatmul,
    reduce,
    arg_reduce,
    softmax,
    copies,
    elementwise,
    transpose,
    gather,
    resample,
    normalize,
    eight_bit,
)


@cache
def lowerings() -> Mapping[str, Lower]:
    """By operator."""
    found: dict[str, Lower] = {}
    for family in _FAMILIES:
        found.update(family.LOWER)
    return found


@cache
def emitters() -> Mapping[type[KernelSpec], Emit]:
    """By the spec's class."""
    found: dict[type[KernelSpec], Emit] = {}
    for family in _FAMILIES:
        found.update(family.EMIT)
    found.update(primitive_emitters())
    return found


def lower(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """The kernels that compute a node. Raises: MavcgError for an operator that no family has."""
    found = lowerings().get(node.op)
    if found is None:
        raise MavcgError(
            f"node '{node.origin}' ({node.op}): no kernel; there are kernels for {', '.join(sorted(lowerings()))}"
        )
    return found(node, graph, views, packing)


@cache
def tiled_emitters() -> Mapping[type[KernelSpec], TiledEmit]:
    """By the spec's class: those that a macro-tile says something to."""
    found: dict[type[KernelSpec], TiledEmit] = {}
    for family in _FAMILIES:
        found.update(getattr(family, "EMIT_TILED", {}))
    return found


def emit(module: ir.Module, spec: KernelSpec, machine: Machine, macro: MacroTile | None = None) -> ir.Function:
    """Add the spec's function to the module.

    macro: how it is tiled; without one, and in families that are not tiled, by what all machines have in common.
    """
    if macro is not None and (tiled := tiled_emitters().get(type(spec))):
        return tiled(module, spec, machine, macro)
    return emitters()[type(spec)](module, spec, machine)
