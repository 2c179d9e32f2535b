"""Attention: a softmax of products of queries with keys, by which values are weighted."""

from mavcg.graph import TensorType
from mavcg.graph.ops.op import FLOATS, Attr, Operator, TypedNode


def _attention(case: TypedNode) -> tuple[TensorType, ...]:
    query = case.type("query", FLOATS, rank=4)
    stored = case.attr("stored")
    types = ("u8",) if stored else (*FLOATS, "i8")
    key, value = (case.type(name, types, rank=4) for name in ("key", "value"))
    case.same_dtype("key", "value")
    if key.dtype != query.dtype and ((key.dtype, query.dtype) != ("i8", "f32") if not stored else query.dtype != "f32"):
        raise case.fail(f"keys are {key.dtype} and queries {query.dtype}; they must have one type, or be i8 and f32")
    batch, tokens, heads, depth = query.shape
    first, second = (2, 1) if case.attr("heads_first") else (1, 2)
    keys, key_heads, packed = value.shape[first], value.shape[second], 2 if stored == "uint4" else 1
    if key.shape[:3] != value.shape[:3] or packed * key.shape[3] != depth or value.shape[0] != batch:
        raise case.fail("key and value of other lengths than query's and each other's")
    if not key_heads or heads % key_heads:
        raise case.fail(f"{heads} heads of queries, which share {key_heads} heads of keys")
    if not keys:
        raise case.fail("no keys to choose from")
    case.same_or_wider_dtype("query", "mask")
    case.at_least(0, "window")
    if case.attr("window") and not case.attr("causal"):
        raise case.fail("a window of keys that is not causal")
    mask, count = case.maybe("mask"), case.maybe("count")
    if case.maybe("sink") is not None and case.type("sink", ("f32",)).shape != (heads,):
        raise case.fail(f"sink is {case.type('sink')} where f32[{heads}] is needed")
    if mask is not None and len(mask.shape) != 4:
        raise case.fail("a mask of other than four dimensions")
    case.broadcasts_to("mask", (batch, heads, tokens, keys))
    if count is not None and (count.dtype not in ("i32", "i64") or count.shape not in ((1,), (batch,))):
        raise case.fail(f"count is {count}; it must be i32 or i64, [1] or [{batch}]")
    return (TensorType(query.dtype, (batch, tokens, heads, packed * value.shape[3])),)


OPS = (
    Operator(
        "attention",
        ("query", "key", "value", "mask?", "count?", "sink?"),
        _attention,
        {
            "scale": Attr("float"),
            "causal": Attr("bool", False),
            "heads_first": Attr("bool", False),
            "window": Attr("int", 0),
            "softcap": Attr("float", 0.0),
            "zero_unseen": Attr("bool", False),
            # The numbers of keys and values of u8: two of 4 bits, less 8, the first in the lower half; or a float.
            "stored": Attr("str", "", choices=("", "uint4", "float8e4m3fn")),
        },
    ),
)
