"""Registry of the primitives of all families and of the emitters of their specs; lowering of nodes that name one.

Nodes that convert layouts are lowered too.
"""

from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType

import numpy as np
from llvmlite import ir

from mavcg.errors import MavcgError
from mavcg.graph import Graph, Node
from mavcg.kernels.primitives import border, convert, eight_bit
from mavcg.kernels.primitives import foreign_gemm as foreign
from mavcg.kernels.primitives import implicit_gemm as implicit
from mavcg.kernels.primitives.convert import find_conversion, lower_conversion
from mavcg.kernels.primitives.direct import family as direct
from mavcg.kernels.primitives.direct import sum2d
from mavcg.kernels.primitives.fft import family as fft
from mavcg.kernels.primitives.im2 import family as im2
from mavcg.kernels.primitives.kn2 import family as kn2
from mavcg.kernels.primitives.sparse import family as sparse
from mavcg.kernels.primitives.winograd import family as winograd
from mavcg.specs.kernel import Array, KernelSpec, Machine, Operand, Packing, Step, View
from mavcg.specs.packed_constant import PackedConstant
from mavcg.specs.primitive import (
    F32_BYTES,
    AxisWindow,
    Epilogue,
    Layout,
    Primitive,
    Scenario,
    StageOperand,
    image_elements,
)

Emit = Callable[[ir.Module, KernelSpec, Machine], ir.Function]

# All modules with PRIMITIVES and EMIT, in the order in which primitives are listed.
_FAMILIES: tuple[ModuleType, ...] = (
    sum2d,
    direct,
    implicit,
    im2,
    kn2,
    fft,
    winograd,
    sparse,
    foreign,
)


@cache
def all_primitives() -> tuple[Primitive, ...]:
    """Return the f32 primitives of every family, in the order of the families."""
    primitives = tuple(primitive for family in _FAMILIES for primitive in family.PRIMITIVES)
    names = [primitive.name for primitive in primitives]
    assert len(set(names)) == len(names), "two primitives of one name"
    return primitives


def eight_bit_primitives() -> tuple[Primitive, ...]:
    """Return the primitives of quantised convolutions, the engine's defaults first."""
    return eight_bit.PRIMITIVES


def primitives_of_family(family: str | None) -> list[Primitive]:
    """Return the primitives of the option --family, or all of them for None. Raises: MavcgError for an unknown one."""
    known = (*all_primitives(), *eight_bit_primitives())
    families = list(dict.fromkeys(primitive.family for primitive in known))
    if family is not None and family not in families:
        raise MavcgError(f"--family {family}: there is no such family; the families are {', '.join(families)}")
    return [primitive for primitive in known if family in (None, primitive.family)]


def find_primitive(name: str) -> Primitive:
    """Return the primitive of a name. Raises: MavcgError for an unknown name, with similar names."""
    import difflib

    known = {primitive.name: primitive for primitive in (*all_primitives(), *eight_bit_primitives())}
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(near)}? " if near else ""
    raise MavcgError(f"primitive '{name}': unknown name; {hint}`mavcg primitives` lists them")


@cache
def _modules() -> Mapping[str, str]:
    return {primitive.name: family.__name__ for family in (*_FAMILIES, eight_bit) for primitive in family.PRIMITIVES}


def module_of(name: str) -> str:
    """Return the module of a primitive's family; "" for an unknown primitive."""
    return _modules().get(name, foreign.__name__ if name.startswith(f"{foreign.FAMILY}_") else "")


@cache
def primitive_emitters() -> Mapping[type[KernelSpec], Emit]:
    """Return the emitter of each class of primitives' specs."""
    emitters: dict[type[KernelSpec], Emit] = {}
    for family in (border, convert, *_FAMILIES):
        emitters.update(family.EMIT)
    return emitters


def scenario_of(node: Node, graph: Graph) -> Scenario:
    """Return the scenario that a primitive_conv2d node computes."""
    m, k_h, k_w, _ = graph.shape(node.inputs[1])
    c, h, w, groups, batch = (int(node.attr(name)) for name in ("c", "h", "w", "groups", "n"))
    stride, pad, dilation = (tuple(map(int, node.attr(name))) for name in ("stride", "pads", "dilation"))
    across = AxisWindow(k_w, stride[1], pad[1], dilation[1])
    return Scenario(c, h, w, stride[0], k_h, m, pad[0], groups, dilation[0], across=across, batch=batch)


def lower_primitive(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the steps of a primitive_conv2d node, one for each stage of its primitive.

    Raises: MavcgError for an unknown primitive, one with other layouts or that does not compute this convolution, and
    for weights that are not constant.
    """
    location = f"node '{node.origin or node.output}' (primitive_conv2d)"
    primitive = find_primitive(node.attr("primitive"))
    scenario, weights = scenario_of(node, graph), graph.constants.get(node.inputs[1])
    _check_block(location, node, packing)
    layouts = (Layout(node.attr("layout_in")), Layout(node.attr("layout_out")))
    if layouts != (primitive.layout_in, primitive.layout_out):
        raise MavcgError(
            f"{location}: {primitive.name} reads {primitive.layout_in} and writes {primitive.layout_out}, and the node "
            f"is from {layouts[0]} to {layouts[1]}; name a primitive of these"
        )
    if not primitive.applies(scenario):
        raise MavcgError(f"{location}: {primitive.name} does not compute {scenario}; name one that does")
    if weights is None:
        raise MavcgError(
            f"{location}: its weights are computed by the graph; a primitive needs constant ones: use a conv2d node"
        )
    bias, residual = (*node.inputs[2:], "", "")[:2]
    act = str(node.attr("act")) or "none"
    epilogue = Epilogue(bool(bias), bool(residual), act, tuple(node.attr("act_args")))
    lowering = primitive.lower(scenario, _filters(weights), epilogue, packing.lanes)
    packed = PackedConstant(
        _packed_weights, (node.inputs[1],), (primitive.name, scenario, packing.lanes), lowering.weights_shape
    )
    tensors = {"x": node.inputs[0], "out": node.output, "bias": bias, "residual": residual}

    def operand(stage_operand: StageOperand) -> Operand:
        if stage_operand.base == "weights":
            return Operand(constant=packed, offset=stage_operand.offset)
        if stage_operand.base == "workspace":
            return Operand(workspace_bytes=lowering.workspace_bytes, offset=stage_operand.offset)
        return Operand(tensors[stage_operand.base], written=stage_operand.base == "out", offset=stage_operand.offset)

    return tuple(Step(stage.spec, tuple(map(operand, stage.operands)), node.origin) for stage in lowering.stages)


def _filters(weights: Array) -> Array:
    """Return a graph's weights transposed, [M, K, K, C / groups] -> [M, C / groups, K, K]."""
    return np.asarray(weights).transpose(0, 3, 1, 2)


def _packed_weights(weights: Array, primitive: str, scenario: Scenario, lanes: int) -> Array:
    """Pack a node's weights as its primitive reads them; the packing does not depend on the epilogue."""
    return find_primitive(primitive).lower(scenario, _filters(weights), Epilogue(), lanes).weights


def lower_convert_layout(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the steps of a convert_layout node. Raises: MavcgError for a type other than f32."""
    location = f"node '{node.origin or node.output}' (convert_layout)"
    if graph.types[node.inputs[0]].dtype != "f32":
        raise MavcgError(f"{location}: its type is {graph.types[node.inputs[0]].dtype}; supported: f32")
    _check_block(location, node, packing)
    conversion = find_conversion(Layout(node.attr("layout_from")), Layout(node.attr("layout_to")))
    c, h, w = (int(node.attr(name)) for name in "chw")
    stage = lower_conversion(conversion, c, h, w, packing.lanes)
    ends = (conversion.layout_from, conversion.layout_to)
    read, written = (image_elements(layout, c, h, w, packing.lanes) * F32_BYTES for layout in ends)
    return tuple(
        Step(
            stage.spec,
            (Operand(node.inputs[0], offset=i * read), Operand(node.output, written=True, offset=i * written)),
            node.origin,
        )
        for i in range(int(node.attr("n")))
    )


def _check_block(location: str, node: Node, packing: Packing) -> None:
    blocked = str(Layout.CHWC) in (node.attr(name) for name, _ in node.attrs if name.startswith("layout_"))
    if blocked and node.attr("block") != packing.lanes:
        raise MavcgError(
            f"{location}: blocks of {node.attr('block')} channels where this library has {packing.lanes}; lay out anew"
        )


LOWER = {"primitive_conv2d": lower_primitive, "convert_layout": lower_convert_layout}
EMIT: Mapping[type[KernelSpec], object] = {}  # primitive_emitters has them
