"""Lowering of attention, and its kernel's function."""

from collections.abc import Mapping

from llvmlite import ir

from mavcg.errors import MavcgError
from mavcg.graph import Graph, Node
from mavcg.kernels.attention.groups import emit_groups
from mavcg.kernels.attention.spec import Attention
from mavcg.kernels.builder.emit import kernel_function
from mavcg.kernels.tensor.layer_norm import refuse_other_types
from mavcg.specs.kernel import Machine, Operand, Packing, Step, View


def lower_attention(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the step of an attention node. Raises: as refuse_other_types."""
    query, key, value, mask, count, sink = (views[name] if name else None for name in node.inputs)
    out = views[node.output]
    assert query is not None and key is not None and value is not None
    refuse_other_types(node, query)
    if not out.elements:
        return ()
    if sink is not None and sink.strides != (1,) and sink.elements > 1:
        raise MavcgError(f"node '{node.origin}' ({node.op}): its sinks do not lie side by side; copy them before")
    if node.attr("heads_first"):
        key, value = (_with_keys_first(view) for view in (key, value))
    batch, tokens, heads, depth = query.shape
    spec = Attention(
        (batch, tokens),
        key.shape[1],
        (heads, key.shape[2]),
        (depth, value.shape[3]),
        query.strides,
        key.strides,
        value.strides,
        out.strides,
        _broadcast(mask) if mask is not None else None,
        node.attr("scale"),
        bool(node.attr("causal")),
        (count.item_bytes, _broadcast(count)[0]) if count is not None else None,
        (query.dtype, mask.dtype if mask is not None else "f32"),
        window=node.attr("window"),
        softcap=node.attr("softcap"),
        sink=sink is not None,
        zero_unseen=node.attr("zero_unseen"),
        stored=key.dtype if key.dtype != query.dtype else "",
    )
    operands = [*(Operand(name) for name in node.inputs[:3]), Operand(node.output, written=True)]
    operands += [Operand(name) for name in node.inputs[3:] if name]
    return (Step(spec, tuple(operands), node.origin),)


def _with_keys_first(view: View) -> View:
    """Return a view [batch, heads, keys, elements] as [batch, keys, heads, elements]."""
    order = (0, 2, 1, 3)
    return View(view.dtype, tuple(view.shape[i] for i in order), tuple(view.strides[i] for i in order))


def _broadcast(view: View) -> tuple[int, ...]:
    """Return a view's strides, 0 along dimensions of length 1."""
    return tuple(0 if length == 1 else stride for length, stride in zip(view.shape, view.strides, strict=True))


def emit_attention(module: ir.Module, spec: Attention, machine: Machine) -> ir.Function:
    """Emit the loops over batches and heads, groups of queries and blocks of keys."""
    function, b = kernel_function(module, spec, machine)
    emit_groups(b, machine, spec)
    b.ret_void()
    return function


LOWER = {"attention": lower_attention}
EMIT = {Attention: emit_attention}
HALF = {"attention": (3,)}
