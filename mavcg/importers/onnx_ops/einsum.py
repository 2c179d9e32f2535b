"""The handler of Einsum: operands are combined from the first to the last by transposes, sums and batched products."""

import math
import string
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mavcg.graph.layout import dense_strides
from mavcg.importers.indices import gather_along
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results, round_once
from mavcg.importers.value import Value, constant


@dataclass(frozen=True)
class _Labelled:
    """A value with a label for each dimension, no two of them equal. Dimensions of "..." are labelled by numbers."""

    value: Value
    labels: tuple[str, ...]

    def size(self, label: str) -> int:
        return self.value.shape[self.labels.index(label)]


@round_once
def einsum(call: OnnxCall) -> Results:
    """Import Einsum, with any number of operands, repeated labels and "...", also without "->"."""
    inputs = call.all_inputs()
    terms, result = _equation(call, len(inputs))
    operands = [_diagonal(call, value, term) for value, term in zip(inputs, terms, strict=True)]
    dots = max((label for o in operands for label in o.labels if label.isdigit()), key=int, default="")
    ellipsis = tuple(str(n) for n in range(int(dots), -1, -1)) if dots else ()
    if result is None:
        counts = "".join(terms)
        letters = sorted(label for label in set(counts) - {"."} if counts.count(label) == 1)
        wanted = (*ellipsis, *letters)
    else:
        wanted = _labels(call, result, len(ellipsis))
        if len(set(wanted)) != len(wanted):
            raise call.fail(f"equation {call.attr_str('equation')!r}: the result names a dimension twice")
    known = {label for o in operands for label in o.labels}
    if not known.issuperset(wanted):
        raise call.fail(f"equation {call.attr_str('equation')!r}: the result names a dimension that no operand has")
    operands = _with_equal_sizes(call, operands)
    made = operands[0]
    for number, operand in enumerate(operands[1:], 1):
        later = {label for o in operands[number + 1 :] for label in o.labels}
        made = _pair(call, made, operand, {*wanted, *later})
    made = _sum_others(call, made, wanted)
    return call.transpose(made.value, [made.labels.index(label) for label in wanted])


def _equation(call: OnnxCall, count: int) -> tuple[list[str], str | None]:
    """Return the terms of the operands and of the result; None without "->"."""
    text = "".join(call.attr_str("equation").split())
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    allowed = set(string.ascii_letters)
    for term in (*terms, right):
        if not set(term.replace("...", "", 1)) <= allowed:
            raise call.fail(f"equation {text!r}; terms are letters and one '...'")
    if len(terms) != count:
        raise call.fail(f"equation {text!r} with {count} operands")
    return terms, right if arrow else None


def _labels(call: OnnxCall, term: str, dots: int) -> tuple[str, ...]:
    """Return the labels of a term, with `dots` dimensions in the place of "...", which are numbered from their end."""
    before, ellipsis, after = term.partition("...")
    return (*before, *(str(n) for n in range(dots - 1, -1, -1) if ellipsis), *after)


def _diagonal(call: OnnxCall, value: Value, term: str) -> _Labelled:
    """Return an operand by its labels; of a label that occurs twice, the elements on the diagonal."""
    letters = len(term.replace("...", "", 1))
    dots = value.rank - letters
    if dots < 0 or (dots and "..." not in term):
        raise call.fail(f"equation {call.attr_str('equation')!r}: '{term}' for an operand {value.type}")
    labels = _labels(call, term, dots)
    if len(set(labels)) == len(labels):
        return _Labelled(value, labels)
    sizes: dict[str, int] = {}
    strides: dict[str, int] = {}
    for label, size, stride in zip(labels, value.shape, dense_strides(value.shape), strict=True):
        if sizes.setdefault(label, size) != size:
            raise call.fail(f"equation {call.attr_str('equation')!r}: dimension {label} has {sizes[label]} and {size}")
        strides[label] = strides.get(label, 0) + stride
    call.emitter.count_work(math.prod(sizes.values()), call.location)
    offsets = np.zeros((), np.int64)
    for label, size in sizes.items():
        offsets = offsets[..., None] + np.arange(size) * strides[label]
    flat = call.reshape(value, (value.type.elements,))
    return _Labelled(gather_along(call, flat, constant(offsets), 0), tuple(sizes))


def _with_equal_sizes(call: OnnxCall, operands: Sequence[_Labelled]) -> list[_Labelled]:
    """Return the operands with each label's dimension of the same length: one of 1 is repeated."""
    sizes: dict[str, int] = {}
    for operand in operands:
        for label, size in zip(operand.labels, operand.value.shape, strict=True):
            known = sizes.get(label, size)
            if 1 not in (known, size) and known != size:
                raise call.fail(
                    f"equation {call.attr_str('equation')!r}: dimension {label} has {known} and {size} elements"
                )
            sizes[label] = size if known == 1 else known
    made = []
    for operand in operands:
        shape = tuple(sizes[label] for label in operand.labels)
        value = operand.value if operand.value.shape == shape else call.add("broadcast_to", operand.value, shape=shape)
        made.append(_Labelled(value, operand.labels))
    return made


def _sum_others(call: OnnxCall, operand: _Labelled, kept: Collection[str]) -> _Labelled:
    """Return the sum over the dimensions that are not kept."""
    axes = tuple(axis for axis, label in enumerate(operand.labels) if label not in kept)
    if not axes:
        return operand
    value = call.add("reduce_sum", operand.value, axes=axes, keepdims=False)
    return _Labelled(value, tuple(label for label in operand.labels if label in kept))


def _pair(call: OnnxCall, a: _Labelled, b: _Labelled, kept: Collection[str]) -> _Labelled:
    """Return the product of two operands, summed over what is not kept."""
    a, b = _sum_others(call, a, {*kept, *b.labels}), _sum_others(call, b, {*kept, *a.labels})
    both = [label for label in a.labels if label in b.labels]
    batch, inner = [label for label in both if label in kept], [label for label in both if label not in kept]
    left, right = [label for label in a.labels if label not in both], [label for label in b.labels if label not in both]

    def arrange(operand: _Labelled, *groups: Sequence[str]) -> Value:
        order = [operand.labels.index(label) for group in groups for label in group]
        shape = [math.prod(operand.size(label) for label in group) for group in groups]
        return call.reshape(call.transpose(operand.value, order), shape)

    if inner:
        made = call.add("matmul", arrange(a, batch, left, inner), arrange(b, batch, inner, right))
    else:
        made = call.add("mul", arrange(a, batch, left, []), arrange(b, batch, [], right))
    labels = (*batch, *left, *right)
    shape = [a.size(label) if label in a.labels else b.size(label) for label in labels]
    return _Labelled(call.reshape(made, shape), labels)


HANDLERS: Mapping[str, Handler] = {"Einsum": einsum}
