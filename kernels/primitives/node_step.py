"""Lowering of graph nodes that name a primitive, and of layout conversions."""

from collections.abc import Mapping

import numpy as np

from mavcg.errors import MavcgError
from mavcg.graph import Graph, Node
from mavcg.kernels.primitives.convert import find_conversion, lower_conversion
from mavcg.kernels.primitives.registry import find_primitive
from mavcg.specs.kernel import Array, KernelSpec, Operand, Packing, Step, View
from mavcg.specs.packed_constant import PackedConstant
from mavcg.specs.primitive import F32_BYTES, AxisWindow, Epilogue, Layout, Scenario, StageOperand, image_elements


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
EMIT: Mapping[type[KernelSpec], object] = {}  # kernels/primitives/registry.py has the emitters
