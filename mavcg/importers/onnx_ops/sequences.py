"""Handlers of sequences and optionals, which are lists of values, or nothing, at import: no graph has them.

The number of a sequence's elements is always known. A position is too, but for SequenceAt, whose elements are stacked
and gathered where a run brings it.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from mavcg.importers import indices, movement
from mavcg.importers.call import known_at_build
from mavcg.importers.counted import is_counted, join_counted
from mavcg.importers.limits import MOST_ELEMENTS
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results
from mavcg.importers.value import NOTHING, Value, constant, sequence_of


def _elements(call: OnnxCall) -> tuple[Value, ...]:
    """Return the elements of the first input. Raises: MavcgError for a tensor or nothing."""
    value = call.input(0)
    if value.elements is None:
        raise call.fail(f"{call.input_name(0)} is no sequence")
    return value.elements


def _tensor(call: OnnxCall, i: int) -> Value:
    value = call.input(i)
    if not value.is_tensor:
        raise call.fail(f"{call.input_name(i)} is no tensor")
    return value


def _position(call: OnnxCall, default: int, most: int) -> int:
    """Return the position that the last input gives, counted from the beginning.

    default: without one. most: the largest; as many positions below 0 count from the end. Raises: MavcgError for
    another one.
    """
    given, length = call.maybe_ints(len(call.inputs) - 1, "position"), len(_elements(call))
    (position,) = given if given is not None and len(given) == 1 else (default,)
    if (given is not None and len(given) != 1) or not -length <= position <= most:
        raise call.fail(f"position {list(given or ())} in a sequence of {length}")
    return position + length if position < 0 else position


def _sequence(call: OnnxCall, elements: Sequence[Value]) -> Value:
    types = sorted({element.dtype for element in elements})
    if len(types) > 1:
        raise call.fail(f"elements of types {', '.join(types)}; one type is needed")
    return sequence_of(elements)


def sequence_empty(call: OnnxCall) -> Results:
    """Import SequenceEmpty."""
    return sequence_of(())


def sequence_construct(call: OnnxCall) -> Results:
    """Import SequenceConstruct."""
    call.all_inputs()
    return _sequence(call, [_tensor(call, i) for i in range(len(call.inputs))])


@known_at_build("position")
def sequence_insert(call: OnnxCall) -> Results:
    """Import SequenceInsert; without a position the tensor becomes the last element."""
    elements, tensor = _elements(call), _tensor(call, 1)
    at = _position(call, len(elements), len(elements)) if len(call.inputs) > 2 else len(elements)
    return _sequence(call, (*elements[:at], tensor, *elements[at:]))


@known_at_build("position")
def sequence_erase(call: OnnxCall) -> Results:
    """Import SequenceErase; without a position the last element is erased."""
    elements = _elements(call)
    if not elements:
        raise call.fail("a sequence without elements; at least one is needed")
    at = _position(call, -1, len(elements) - 1) if len(call.inputs) > 1 else len(elements) - 1
    return sequence_of((*elements[:at], *elements[at + 1 :]))


def sequence_at(call: OnnxCall) -> Results:
    """Import SequenceAt. A run may bring the position if all elements have the same type and shape."""
    elements, position = _elements(call), _tensor(call, 1)
    if position.array is not None or not elements:
        return elements[_position(call, -1, len(elements) - 1)]
    if position.type.elements != 1:
        raise call.fail(f"{call.input_name(1)} is {position.type} where one position is needed")
    if len({element.type for element in elements}) > 1 or any(e.count is not None for e in elements):
        raise call.not_known(1, "position of elements of different shapes")
    return indices.gather_along(call, movement.stack(call, elements, 0), call.reshape(position, ()), 0)


@known_at_build(result=True)
def sequence_length(call: OnnxCall) -> Results:
    """Import SequenceLength, whose result is known at import."""
    return constant(np.array(len(_elements(call)), np.int64))


@known_at_build("split")
def split_to_sequence(call: OnnxCall) -> Results:
    """Import SplitToSequence, into parts of given lengths, or of one length but for the last."""
    x = _tensor(call, 0)
    axis = call.axis(call.attr_int("axis", 0), x.rank)
    if is_counted(x, axis):
        raise call.unsupported("an axis of which only a run decides the length", "a fixed one")
    length, given = x.shape[axis], call.maybe(1)
    size = 1 if given is None else min(call.ints(1, "split"), default=1) if given.rank == 0 else length
    if length > MOST_ELEMENTS * max(size, 1):
        raise call.unsupported(f"{length} elements in parts of {size}", f"at most {MOST_ELEMENTS} parts")
    if given is None:
        parts = movement.split_axis(call, x, axis, [1] * length)
        shape = (*x.shape[:axis], *x.shape[axis + 1 :])
        return sequence_of(parts if call.attr_bool("keepdims", True) else [call.reshape(p, shape) for p in parts])
    sizes = call.ints(1, "split")
    if given.rank == 0:
        if sizes[0] < 1:
            raise call.fail(f"split {sizes[0]}; at least 1 is needed")
        sizes = tuple(min(sizes[0], length - start) for start in range(0, length, sizes[0]))
    if sum(sizes) != length or any(n < 0 for n in sizes):
        raise call.fail(f"split {list(sizes)} of {length} elements")
    return sequence_of(movement.split_axis(call, x, axis, sizes))


def concat_from_sequence(call: OnnxCall) -> Results:
    """Import ConcatFromSequence, along an axis or a new one."""
    elements = _elements(call)
    if not elements:
        raise call.fail("a sequence without elements; at least one is needed")
    rank = elements[0].rank
    if call.attr_bool("new_axis"):
        if len({element.type for element in elements}) > 1:
            raise call.fail("elements of different shapes along a new axis")
        return movement.stack(call, elements, call.axis(call.attr_int("axis"), rank + 1))
    axis = call.axis(call.attr_int("axis"), rank)
    if len(elements) > 1 and any(is_counted(element, axis) for element in elements):
        return join_counted(call, elements, axis)
    return movement.join(call, elements, axis)


def optional(call: OnnxCall) -> Results:
    """Import Optional, of a tensor, a sequence or nothing."""
    return call.maybe(0) or NOTHING


@known_at_build(result=True)
def optional_has_element(call: OnnxCall) -> Results:
    """Import OptionalHasElement, whose result is known at import."""
    return constant(np.array(call.maybe(0) not in (None, NOTHING)))


def optional_get_element(call: OnnxCall) -> Results:
    """Import OptionalGetElement, of an optional or of what one would have."""
    if call.input(0) is NOTHING:
        raise call.fail("an optional without an element")
    return call.input(0)


HANDLERS: Mapping[str, Handler] = {
    "ConcatFromSequence": concat_from_sequence,
    "Optional": optional,
    "OptionalGetElement": optional_get_element,
    "OptionalHasElement": optional_has_element,
    "SequenceAt": sequence_at,
    "SequenceConstruct": sequence_construct,
    "SequenceEmpty": sequence_empty,
    "SequenceErase": sequence_erase,
    "SequenceInsert": sequence_insert,
    "SequenceLength": sequence_length,
    "SplitToSequence": split_to_sequence,
}
OF_SEQUENCES = frozenset({*HANDLERS, "Identity", "Loop"})  # that read what is no tensor
