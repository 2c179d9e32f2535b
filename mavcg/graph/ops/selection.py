"""Operators that choose elements, of which a run decides the number: its result is a count and places up to a bound."""

from mavcg.graph import TensorType
from mavcg.graph.ops.op import SIGNED, Attr, Operator, TypedNode


def _true_places(case: TypedNode) -> tuple[TensorType, ...]:
    flags = case.type("flags", ("bool",), rank=1)
    return (TensorType("i64", (1 + flags.shape[0],)),)


def _suppress_boxes(case: TypedNode) -> tuple[TensorType, ...]:
    boxes, scores = case.type("boxes", ("f32",), rank=3), case.type("scores", ("f32",), rank=3)
    batch, classes, count = scores.shape
    case.at_least(0, "bound")
    if boxes.shape != (batch, count, 4) or case.attr("bound") > count:
        raise case.fail(f"boxes {boxes} for scores {scores}, of which up to {case.attr('bound')} are chosen")
    for name, dtypes in (("overlap", ("f32",)), ("least", ("f32",)), ("most", SIGNED[2:]), ("count", SIGNED[2:])):
        given = case.maybe(name)
        if given is not None and (given.dtype not in dtypes or given.elements != 1):
            raise case.fail(f"{name} is {given}; one element of {' or '.join(dtypes)} is needed")
    return (TensorType("i64", (batch, classes, case.attr("bound"))),)


OPS = (
    Operator("true_places", ("flags",), _true_places, {}),
    Operator(
        "suppress_boxes",
        ("boxes", "scores", "overlap", "least?", "most?", "count?"),
        _suppress_boxes,
        {"bound": Attr("int"), "centred": Attr("bool", False), "at_overlap": Attr("bool", False)},
    ),
)
