"""Places of tensors in their buffers as counts: shapes, strides and offsets that follow from the lengths of a run.

Tensors are dense at the lengths of a run, and one that lies in another, such as an image in its padded one, has the
strides of that one. So these are products of lengths of axes, as in memory/containers.py, with counts in place of
numbers. They are compared with what was planned for each sample.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from mavcg.choose.lengths.samples import AxisCounts, Lengths
from mavcg.choose.lengths.window_pads import PADS, ImagePads
from mavcg.graph import DTYPES, Node
from mavcg.graph.counts import Count, product_of, sum_of, value_at
from mavcg.memory.locations import Storage


@dataclass(frozen=True)
class RunView:
    """A tensor's place in the buffer of `root`, as memory/locations.Location with counts, in elements of item_bytes.

    advance: (number of a loop, 1 or -1, elements that the tensor moves up or down by in each iteration of it); its
    offset is the first of its places.
    """

    root: str
    item_bytes: int
    shape: AxisCounts
    strides: AxisCounts
    offset: Count = 0
    advance: tuple[tuple[int, int, Count], ...] = ()


def run_views(
    storages: Sequence[Storage],
    samples: Sequence[Lengths],
    axes: Mapping[str, AxisCounts],
    pads: Mapping[str, ImagePads],
) -> Mapping[str, RunView]:
    """Return the places of all tensors for which they follow from the lengths.

    storages: of the graph at each of the samples, the longest first. axes: counts of the axes of its tensors. pads: of
    pad nodes whose pads follow from a length, by their output.
    """
    found: dict[str, RunView] = {}
    for name in storages[0].locations:
        view = _view(name, storages[0], axes, found, pads)
        if view is not None and all(_is_at(view, name, *at) for at in zip(storages, samples, strict=True)):
            found[name] = view
    return found


def meets_at_some_lengths(view: RunView, longest: Lengths, others: Sequence[Lengths]) -> bool:
    """Return True if two axes of a tensor are one at the longest lengths, so that kernels see them as one, but not at
    others: such as every second row, of which the last one is followed by the next channel's first if rows are even."""
    axes = [(n, stride) for n, stride in zip(view.shape, view.strides, strict=True) if n != 1]
    for (_, outer), (length, inner) in pairwise(axes):
        inside = product_of(length, inner)
        if outer != inside and value_at(outer, longest) == value_at(inside, longest):
            if any(value_at(outer, at) != value_at(inside, at) for at in others):
                return True
    return False


def view_of_slice(node: Node, views: Mapping[str, RunView], axes: Mapping[str, AxisCounts]) -> RunView | None:
    """Return the place of a slice's result in its input, from the input's first element; None for other nodes."""
    view = views.get(node.inputs[0]) if node.op == "slice" else None
    if view is None or node.output not in axes:
        return None
    steps = zip(node.attr("steps"), view.strides, strict=True)
    return replace(view, shape=axes[node.output], strides=tuple(product_of(abs(n), stride) for n, stride in steps))


def start_of_inside(node: Node, views: Mapping[str, RunView], pads: Mapping[str, ImagePads]) -> Count | None:
    """Return where the inside of a pad's result begins, in elements from the result's first; None for other nodes."""
    view = views.get(node.outputs[0])
    if view is None or node.op not in PADS:
        return None
    before = pads[node.output].before if node.output in pads else node.attr("before")
    return sum_of(*(product_of(index, stride) for index, stride in zip(before, view.strides, strict=True)))


def _view(
    name: str,
    storage: Storage,
    axes: Mapping[str, AxisCounts],
    known: Mapping[str, RunView],
    pads: Mapping[str, ImagePads],
) -> RunView | None:
    """Return a tensor's place; None if the lengths of its axes are not known."""
    if name in known:
        return known[name]
    shape, within = axes.get(name), storage.inside.get(name)
    if shape is None:
        return None
    if within is None:
        return RunView(name, DTYPES[storage.graph.types[name].dtype].itemsize, shape, dense_counts(shape))
    around = _view(within.container, storage, axes, known, pads)
    if around is None:
        return None
    if within.row:
        advance = (*around.advance, (within.loop, within.row, product_of(*shape)))
        return replace(around, shape=shape, strides=dense_counts(shape), advance=advance)
    if within.step is None:
        return replace(around, shape=shape, strides=dense_counts(shape))
    padded = pads.get(within.container)
    start = padded.before if padded is not None and padded.image == name else within.start
    starts = (product_of(index, stride) for index, stride in zip(start, around.strides, strict=True))
    strides = tuple(product_of(step, stride) for step, stride in zip(within.step, around.strides, strict=True))
    return replace(around, shape=shape, strides=strides, offset=sum_of(around.offset, *starts))


def dense_counts(shape: AxisCounts) -> AxisCounts:
    """Return the strides of a dense tensor, in elements."""
    return tuple(product_of(*shape[axis + 1 :]) for axis in range(len(shape)))


def _is_at(view: RunView, name: str, storage: Storage, lengths: Lengths) -> bool:
    """Return True if a tensor lies there at some lengths; the stride of an axis of length 1 has no meaning, nor has the
    advance in a single iteration."""
    location = storage.locations.get(name)
    if location is None or location.root != view.root:
        return False
    trips = {loop.number: loop.trips for loop in storage.loops}
    advance = [(loop, sign * value_at(count, lengths)) for loop, sign, count in view.advance]
    first = location.offset + sum(elements * (trips[loop] - 1) for loop, elements in advance if elements < 0)
    moves = [[(loop, elements) for loop, elements in each if trips[loop] > 1] for each in (advance, location.advance)]
    shape = tuple(value_at(count, lengths) for count in view.shape)
    strides = (value_at(count, lengths) for count in view.strides)
    same = all(n == 1 or a == b for n, a, b in zip(shape, strides, location.view.strides, strict=True))
    return shape == location.view.shape and same and value_at(view.offset, lengths) == first and moves[0] == moves[1]
