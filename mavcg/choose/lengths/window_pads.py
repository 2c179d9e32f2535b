"""Pads of windows that follow from the length of an axis: those of SAME padding at a stride.

There are ceil(length / stride) windows, so the total of both pads is what they reach beyond the length, which follows
from its remainder. The rule is compared with the pads that were read for a sample of lengths. A convolution gets a pad
node of its own, whose kernel and whose place inside of it have such pads as numbers of the run; a pool's kernel reads
them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mavcg.choose.lengths.samples import AxisCounts, Lengths, Refusal, ShapeSample
from mavcg.graph import Graph, Node, TensorType
from mavcg.graph.counts import Count, cycle_of, product_of, quotient_of, sum_of, value_at
from mavcg.graph.ops import make_node
from mavcg.graph.ops.spatial import same_pads
from mavcg.kernels.tensor.copies import CopySpec
from mavcg.kernels.tensor.pad import PadBorder
from mavcg.passes.graph.pads import border_value
from mavcg.passes.graph.rewrite import Rewrite
from mavcg.specs.kernel import KernelSpec

CONVOLUTIONS = ("conv2d", "qconv2d", "iconv2d")
POOLS = ("max_pool2d", "avg_pool2d", "qavg_pool2d")
PADS = ("pad", "pad_with")
_MOST_STRIDE = 64


@dataclass(frozen=True)
class AxisPads:
    """Pads before and after an axis. padded: its length with these, and with `more` elements after them.

    more: what a pad node has besides, so that it has a border at every length and `padded` grows with the length; no
    window reads it.
    """

    before: Count
    after: Count
    more: Count
    padded: Count


@dataclass(frozen=True)
class ImagePads:
    """Pads of windows over an image, of its height and its width. image: the tensor that a pad node has inside."""

    height: AxisPads
    width: AxisPads
    image: str = ""

    def at(self, lengths: Lengths) -> tuple[int, ...]:
        """Return (top, left, bottom, right) at some lengths."""
        both = self.height, self.width
        return tuple(value_at(count, lengths) for count in (*(p.before for p in both), *(p.after for p in both)))

    @property
    def before(self) -> AxisCounts:
        """Pads before each axis of N, H, W, C."""
        return 0, self.height.before, self.width.before, 0

    @property
    def behind(self) -> AxisCounts:
        """Border of a pad node after each axis of N, H, W, C."""
        return 0, *(sum_of(pads.after, pads.more) for pads in (self.height, self.width)), 0


def pad_numbers(spec: KernelSpec, pads: ImagePads, inside: Count | None) -> Mapping[str, Count]:
    """Return the integers of a kernel of a pad node or a pool that pads which follow from a length make, by path.

    inside: where the inside of a pad node's result begins; None for a pool.
    """
    match spec:
        case PadBorder():
            sides = {"before": pads.before, "after": pads.behind}
            return {f"{side}.{axis}": count for side, counts in sides.items() for axis, count in enumerate(counts)}
        case CopySpec():
            return {} if inside is None else {"target_offset": inside}
    return {"pads.0": pads.height.before, "pads.1": pads.width.before}


def reach_of(node: Node, axis: int, types: Mapping[str, TensorType]) -> int:
    """Return how many elements a window has from its first tap to its last. axis: 0 for its height, 1 for its width."""
    kernel = node.attr("kernel") if node.op in POOLS else types[node.inputs[1]].shape[1:3]
    return int((kernel[axis] - 1) * node.attr("dilation")[axis] + 1)


def axis_pads(
    rows: Count, stride: int, reach: int, given: Sequence[tuple[int, int]], samples: Sequence[Lengths]
) -> AxisPads | None:
    """Return the pads along an axis; None if no rule, or more than one, explains them.

    rows: length of the axis. given: (before, after) at the samples.
    """
    if len(set(given)) == 1:
        return AxisPads(*given[0], 0, sum_of(rows, *given[0]))
    if stride > _MOST_STRIDE:
        return None
    every = range(stride, 2 * stride)  # a length of each remainder
    spare = max(reach - stride, 1)
    padded = sum_of(product_of(stride, quotient_of(sum_of(rows, stride - 1), stride)), spare)
    found = set[AxisPads]()
    for larger_after in (True, False):
        pairs = [_same_pads(length, stride, reach, larger_after) for length in every]
        more = [-(-n // stride) * stride + spare - n - sum(pair) for n, pair in zip(every, pairs, strict=True)]
        before, after = (cycle_of(rows, values) for values in zip(*pairs, strict=True))
        if list(given) == [(value_at(before, sample), value_at(after, sample)) for sample in samples]:
            found.add(AxisPads(before, after, cycle_of(rows, more), padded))
    return found.pop() if len(found) == 1 else None


def _same_pads(length: int, stride: int, reach: int, larger_after: bool) -> tuple[int, int]:
    (less,), (more,) = same_pads((length,), (reach,), (stride,), (1,))
    return (less, more) if larger_after else (more, less)


def image_pads(node: Node, samples: Sequence[ShapeSample], image: AxisCounts) -> ImagePads | None:
    """Return the pads of a node's windows; None if no rule explains them. image: counts of its input's axes."""
    lengths = [sample.lengths for sample in samples]
    read = [sample.nodes[node.outputs[0]].attr("pads") for sample in samples]
    pads = [
        axis_pads(
            image[1 + axis],
            node.attr("stride")[axis],
            reach_of(node, axis, samples[0].types),
            [(each[axis], each[2 + axis]) for each in read],
            lengths,
        )
        for axis in (0, 1)
    ]
    return None if pads[0] is None or pads[1] is None else ImagePads(pads[0], pads[1])


def pads_by_origin(
    graph: Graph, samples: Sequence[ShapeSample], counts: Mapping[str, AxisCounts], refusal: Refusal
) -> Mapping[str, ImagePads]:
    """Return the pads that follow from a length and that a kernel has to know, by the node of the file.

    counts: of the axes of all tensors. Raises: MavcgError, made by `refusal`, for pads that no rule explains.
    """
    found = dict[str, ImagePads | None]()
    for node in graph.nodes:
        if node.op not in (*CONVOLUTIONS, *POOLS):
            continue
        read = [sample.nodes[node.outputs[0]].attr("pads") for sample in samples]
        known = 2 if node.op in POOLS else 4  # pools see where the image ends
        fixed = len({pads[:known] for pads in read}) == 1
        pads = None if fixed else image_pads(node, samples, counts[node.inputs[0]])
        if (pads is None and not fixed) or found.setdefault(node.origin, pads) != pads:
            raise refusal(node, "has pads that follow from it otherwise than by SAME padding")
    return {origin: pads for origin, pads in found.items() if pads is not None}


def with_own_pads(
    graphs: Sequence[Graph], samples: Sequence[Lengths], pads: Mapping[str, ImagePads], refusal: Refusal
) -> tuple[list[Graph], Mapping[str, ImagePads]]:
    """Return the optimised graphs with a pad node before each convolution whose pads follow from a length.

    pads: by the node of the file. The second result has those of pad nodes and pools, by their output. Raises:
    MavcgError, made by `refusal`, for a node that was merged with other pads.
    """
    own = dict[str, ImagePads]()
    made = [_with_own_pads(graph, at, pads, own, refusal) for graph, at in zip(graphs, samples, strict=True)]
    return made, own


def _with_own_pads(
    graph: Graph, lengths: Lengths, pads: Mapping[str, ImagePads], own: dict[str, ImagePads], refusal: Refusal
) -> Graph:
    new, makers = Rewrite(graph), graph.producers()
    shared = dict[tuple[str, ImagePads, float | str], str]()
    for node in graph.nodes:
        of_node = pads.get(node.origin) if node.op in (*CONVOLUTIONS, *POOLS) else None
        if of_node is None:
            new.keep(node)
            continue
        at = of_node.at(lengths)
        if node.op in POOLS:
            if node.attr("pads")[:2] != at[:2]:
                raise refusal(node, f"pads by {list(node.attr('pads')[:2])}, of which {list(at[:2])} follow from it")
            own[node.output] = of_node
            new.keep(node)
            continue
        image, value = node.inputs[0], border_value(node)
        if any(at):
            pad = makers.get(image)
            around = None if pad is None or pad.op not in PADS else (*pad.attr("before"), *pad.attr("after"))
            if pad is None or around != (0, *at[:2], 0, 0, *at[2:], 0):
                raise refusal(node, f"does not pad by {list(at)}, which follow from it")
            image = pad.inputs[0]
        key = (image, of_node, value)
        if key not in shared:
            behind = tuple(value_at(count, lengths) for count in of_node.behind)
            sides = {"before": tuple(value_at(count, lengths) for count in of_node.before), "after": behind}
            shared[key] = name = f"{node.output}, padded"
            own[name] = replace(of_node, image=image)
            if isinstance(value, str):
                new.put(make_node("pad_with", (image, value), (name,), node.origin, **sides))
            else:
                new.put(make_node("pad", (image,), (name,), node.origin, mode="constant", value=value, **sides))
        new.put(replace(node, inputs=(shared[key], *node.inputs[1:])))
    return new.finish()
