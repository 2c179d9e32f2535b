"""Lengths that a model's file takes, for the error of one that it does not: the least one, or a step."""

from collections.abc import Sequence

from mavcg.choose.lengths.samples import Lengths, ReadGraph, dimensions_text, lengths_text, remedy_text
from mavcg.errors import MavcgError, OptionError
from mavcg.graph import Graph
from mavcg.graph.counts import Dimension

_STEPS = (2, 4, 8, 16, 32, 64, 128, 3, 5, 6, 7, 10, 12, 14, 24, 28, 56)  # halvings first, then windows of attention


def read_at(read: ReadGraph, lengths: Lengths, dimensions: Sequence[Dimension]) -> Graph:
    """Return the graph for lengths.

    Raises: OptionError as read does. MavcgError where read raises one, with the least length that the model takes, or
    the step of those that it takes.
    """
    try:
        return read(lengths)
    except OptionError:
        raise  # no other length helps
    except MavcgError as error:
        longest = {dimension.name: dimension.most for dimension in dimensions}
        shorter = [dimension for dimension in dimensions if lengths[dimension.name] != dimension.most]
        changed = shorter or list(dimensions)
        at = {dimension.name: lengths[dimension.name] for dimension in changed}
        remedy = _least_remedy(read, lengths, longest, shorter[0]) if len(shorter) == 1 else ""
        for together in (*([d] for d in changed), changed):
            remedy = remedy or _step_remedy(read, longest, together)
        remedy = remedy or (remedy_text(dimensions) if len(changed) == 1 else "give larger least lengths")
        raise MavcgError(f"the {dimensions_text(changed)}: at {lengths_text(at, changed)} {error}; {remedy}") from error


def _least_remedy(read: ReadGraph, lengths: Lengths, longest: Lengths, dimension: Dimension) -> str:
    """Return which range of a dimension the model takes, if it takes the least length that is found and the next."""
    refused, taken = lengths[dimension.name], dimension.most
    while taken - refused > 1:
        middle = (refused + taken) // 2
        reads = _reads(read, {**longest, dimension.name: middle})
        refused, taken = (refused, middle) if reads else (middle, taken)
    if taken >= dimension.most or not _reads(read, {**longest, dimension.name: taken + 1}):
        return ""
    least, most, *step = Dimension(dimension.name, taken, dimension.most, dimension.step).bounds
    given = ":".join([f"{least}..{most}", *map(str, step)])
    return f"the least length that the model takes is {least}: give {given}"


def _step_remedy(read: ReadGraph, longest: Lengths, dimensions: Sequence[Dimension]) -> str:
    """Return the least step of the lengths that the model takes, of all dimensions together; "" without one.

    If it takes two neighbouring multiples of a number, and lengths that are multiples of a step only, this step divides
    their distance.
    """
    for step in _STEPS:
        ends = [dimension.most // step * step for dimension in dimensions]
        if all(end > max(step, d.least) for end, d in zip(ends, dimensions, strict=True)) and all(
            _reads(read, {**longest, **{d.name: end - less for d, end in zip(dimensions, ends, strict=True)}})
            for less in (0, step)
        ):
            return f"the model takes {' and '.join(_in_steps(step, dimension) for dimension in dimensions)}"
    return ""


def _in_steps(step: int, dimension: Dimension) -> str:
    coarse = Dimension("", -(-dimension.least // step), dimension.most // step, step * dimension.step)
    least, most, every = coarse.bounds
    return f"multiples of {every} as {dimension.name}: give {least}..{most}:{every}"


def _reads(read: ReadGraph, lengths: Lengths) -> bool:
    """Return True if the model takes lengths."""
    try:
        read(lengths)
    except MavcgError:
        return False
    return True
