"""Registry of kernel families: the functions that lower operators to specs and emit specs as LLVM IR."""

from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType

from llvmlite import ir

from mavcg.errors import MavcgError
from mavcg.graph import Graph, Node
from mavcg.kernels.attention import attention
from mavcg.kernels.block_weights import expand as expanded_blocks
from mavcg.kernels.block_weights import product as block_product
from mavcg.kernels.conv import conv2d, matmul
from mavcg.kernels.conv import transpose as conv_transpose
from mavcg.kernels.gemm.register_tile import BlockRegisters
from mavcg.kernels.int8 import conv2d as qconv2d
from mavcg.kernels.int8 import integer_conv, mean_pool, means
from mavcg.kernels.int8 import matmul as qmatmul
from mavcg.kernels.primitives import registry as primitive_step
from mavcg.kernels.primitives.registry import primitive_emitters
from mavcg.kernels.tensor import (
    arg_reduce,
    arg_top,
    copies,
    cumulative,
    dynamic_range,
    elementwise,
    gather,
    layer_norm,
    local_response,
    pad,
    plain_product,
    pool,
    reduce,
    resample,
    run_indices,
    softmax,
    suppress_boxes,
    transpose,
    tree_leaves,
    true_places,
)
from mavcg.specs.kernel import KernelSpec, Machine, Packing, Step, View
from mavcg.specs.tile_plan import MacroTile

# lower(node, graph, views of its inputs and outputs by tensor name, packing); the graph has the constants.
Lower = Callable[[Node, Graph, Mapping[str, View], Packing], tuple[Step, ...]]
# emit(module, spec, machine): adds one function, named by emit.kernel_name(spec).
Emit = Callable[[ir.Module, KernelSpec, Machine], ir.Function]
# emit(module, spec, machine, macro-tile): a module may have EMIT_TILED beside EMIT.
TiledEmit = Callable[[ir.Module, KernelSpec, Machine, MacroTile], ir.Function]


# registers(spec, machine, macro-tile, output channels of a block): a module may have REGISTERS beside EMIT_TILED.
ChooseRegisters = Callable[[KernelSpec, Machine, MacroTile, int], BlockRegisters]


# All modules with LOWER, operator -> Lower, and EMIT, class of spec -> Emit.
_FAMILIES: tuple[ModuleType, ...] = (
    conv2d,
    conv_transpose,
    matmul,
    block_product,
    expanded_blocks,
    pad,
    plain_product,
    pool,
    primitive_step,
    qconv2d,
    qmatmul,
    integer_conv,
    reduce,
    arg_reduce,
    arg_top,
    dynamic_range,
    softmax,
    cumulative,
    attention,
    copies,
    elementwise,
    transpose,
    gather,
    run_indices,
    true_places,
    tree_leaves,
    suppress_boxes,
    resample,
    layer_norm,
    local_response,
    means,
    mean_pool,
)


@cache
def lowerings() -> Mapping[str, Lower]:
    """Return the lowering functions by operator."""
    by_operator: dict[str, Lower] = {}
    for family in _FAMILIES:
        by_operator.update(family.LOWER)
    return by_operator


@cache
def emitters() -> Mapping[type[KernelSpec], Emit]:
    """Return the emitters by class of spec."""
    by_spec: dict[type[KernelSpec], Emit] = {}
    for family in _FAMILIES:
        by_spec.update(family.EMIT)
    by_spec.update(primitive_emitters())
    return by_spec


@cache
def _half_operators() -> Mapping[str, ModuleType]:
    return {op: family for family in _FAMILIES for op in getattr(family, "HALF", ())}


def single_inputs(node: Node, graph: Graph) -> tuple[int, ...] | None:
    """Return the inputs that stay f32 where a kernel computes a node's f32 tensors as f16; None without such a kernel.

    They are added or multiplied before the result is rounded: biases and scales (docs/design/model-graph.md). A family
    has HALF, its operators with such kernels and these inputs of each, and may have refuses_half(node, graph) for nodes
    without one.
    """
    family = _half_operators().get(node.op)
    refuses = getattr(family, "refuses_half", None)
    if family is None or (refuses is not None and refuses(node, graph)):
        return None
    inputs: tuple[int, ...] = family.HALF[node.op]
    return inputs


def lower(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the steps that compute a node. Raises: MavcgError for an operator without a kernel."""
    lower_node = lowerings().get(node.op)
    if lower_node is None:
        supported = ", ".join(sorted(lowerings()))
        raise MavcgError(f"node '{node.origin}' ({node.op}): no kernel for this operator; supported: {supported}")
    return lower_node(node, graph, views, packing)


@cache
def tiled_emitters() -> Mapping[type[KernelSpec], TiledEmit]:
    """Return the emitters that take a macro-tile, by class of spec."""
    by_spec: dict[type[KernelSpec], TiledEmit] = {}
    for family in _FAMILIES:
        by_spec.update(getattr(family, "EMIT_TILED", {}))
    return by_spec


@cache
def _register_choices() -> Mapping[type[KernelSpec], ChooseRegisters]:
    choices: dict[type[KernelSpec], ChooseRegisters] = {}
    for family in _FAMILIES:
        choices.update(getattr(family, "REGISTERS", {}))
    return choices


def block_registers(spec: KernelSpec, machine: Machine, macro: MacroTile, channels: int) -> BlockRegisters:
    """Return the register tiles of a block of `channels` output channels, for specs that have `products`."""
    return _register_choices()[type(spec)](spec, machine, macro, channels)


def emit(module: ir.Module, spec: KernelSpec, machine: Machine, macro: MacroTile | None = None) -> ir.Function:
    """Emit the function of a spec into the module.

    macro: the planned macro-tile; None: the family's default, which suits all machines. Families without tiles ignore
    it.
    """
    if macro is not None and (tiled := tiled_emitters().get(type(spec))):
        return tiled(module, spec, machine, macro)
    return emitters()[type(spec)](module, spec, machine)
