"""Operators of matrix products."""

from mavcg.graph import TensorType
from mavcg.ops.elementwise import check_activation
from mavcg.ops.op import FLOATS, NUMBERS, Attr, Operator, TypedNode
from mavcg.ops.spatial import ACT


def _matmul(case: TypedNode) -> tuple[TensorType, ...]:
    a, b = case.type("a", NUMBERS, rank_min=2), case.type("b", NUMBERS, rank_min=2)
    case.same_dtype("a", "b", "bias", "residual")
    depth, width = b.shape[-2:] if not case.attr("transpose_b") else b.shape[:-3:-1]
    if a.shape[-1] != depth:
        raise case.fail(f"rows of a have {a.shape[-1]} elements where columns of b have {depth}")
    result = TensorType(a.dtype, (*case.broadcast(a.shape[:-2], b.shape[:-2]), a.shape[-2], width))
    bias, residual = case.maybe("bias"), case.maybe("residual")
    if bias is not None and bias.shape != (width,):
        raise case.fail(f"bias {bias} where {width} elements are needed")
    if residual is not None and residual != result:
        raise case.fail(f"residual {residual} where {result} is needed")
    check_activation(case)
    if a.dtype not in FLOATS and case.attr("act") not in ("", "relu", "clip"):
        raise case.fail(f"act {case.attr('act')} of {a.dtype}; whole numbers take relu and clip")
    return (result,)


OPS = (Operator("matmul", ("a", "b", "bias?", "residual?"), _matmul, {"transpose_b": Attr("bool", False), **ACT}),)
