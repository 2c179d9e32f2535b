"""Kernel of suppress_boxes: of boxes that overlap, the one with the largest score, without vectors.

The overlap is intersection over union in f32, by the operations of onnxruntime's and LiteRT's kernels in their order.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from llvmlite import ir

from mavcg.graph import DTYPES, Graph, Node
from mavcg.kernels.builder.emit import (
    F32,
    I1,
    I32,
    I64,
    Values,
    address,
    const,
    element,
    finish_rows,
    for_range,
    kernel_function,
    operand,
    scale_index,
)
from mavcg.kernels.builder.nest_loops import maximum, minimum
from mavcg.specs.kernel import KernelSpec, Machine, Operand, Packing, Step, View
from mavcg.specs.kernel_symbol import sizes_text
from mavcg.specs.serialize import spec_format

_CANDIDATE_BYTES = 4
_Corners = tuple[ir.Value, ir.Value, ir.Value, ir.Value]  # the least of both directions, then the greatest


@spec_format("suppress_boxes")
@dataclass(frozen=True)
class SuppressBoxes(KernelSpec):
    """The indices of the boxes that remain of each class, the best score first, as i64, then -1.

    The box with the largest score remains, of equal ones the first; those whose overlap with it is above the threshold
    (at_overlap: or equal to it) are suppressed; so on with the rest, up to `bound` boxes. boxes: [batch, boxes, 4], two
    opposite corners, or (centred) centre and size. scores: [batch, classes, boxes]; boxes whose score is not above
    `least` do not count. strides: of boxes, scores and out, in elements. most, count: bytes of the integers that limit
    chosen boxes and boxes; 0: there are none. A row of work is one class. Operands: boxes, scores, overlap, those that
    there are of least, most and count, out.
    """

    batch: int
    classes: int
    boxes: int
    bound: int
    centred: bool
    at_overlap: bool
    least: bool
    most: int
    count: int
    strides: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]

    @property
    def family(self) -> str:
        return "suppress_boxes_f32"

    @property
    def symbol_shape(self) -> str:
        return sizes_text(self.batch, self.classes, self.boxes, self.bound)

    @property
    def rows(self) -> int:
        return self.batch * self.classes

    @property
    def scratch_bytes(self) -> int:
        """A number for each candidate."""
        return self.boxes * _CANDIDATE_BYTES

    @property
    def work(self) -> int:
        """Steps where half of the boxes are candidates, and each that remains suppresses some."""
        return self.rows * self.boxes * (2 + min(self.bound, 64))


def lower_suppress_boxes(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the step of a suppress_boxes node; none without a result."""
    out = views[node.output]
    if out.elements == 0:
        return ()
    given = dict(zip(("boxes", "scores", "overlap", "least", "most", "count"), node.inputs, strict=True))
    boxes, scores = views[given["boxes"]], views[given["scores"]]
    sizes = {name: DTYPES[graph.types[given[name]].dtype].itemsize if given[name] else 0 for name in ("most", "count")}
    batch, classes, number = scores.shape
    spec = SuppressBoxes(
        batch,
        classes,
        number,
        out.shape[2],
        node.attr("centred"),
        node.attr("at_overlap"),
        bool(given["least"]),
        sizes["most"],
        sizes["count"],
        (boxes.strides, scores.strides, out.strides),
    )
    read = tuple(Operand(name) for name in given.values() if name)
    return (Step(spec, (*read, Operand(node.output, written=True)), node.origin),)


def emit_suppress_boxes(module: ir.Module, spec: SuppressBoxes, machine: Machine) -> ir.Function:
    """Emit, for each class: the list of candidates, then the choice of the best one until none is left.

    One pass over the candidates removes those that the last choice suppresses, and finds the best of the others. Places
    without a candidate left get -1 by the same loop, whose pass is then empty.
    """
    function, b = kernel_function(module, spec, machine)
    names = ["boxes", "scores", "overlap"]
    names += [n for n, there in (("least", spec.least), ("most", spec.most), ("count", spec.count)) if there]
    given = {name: operand(b, i, name) for i, name in enumerate((*names, "out"))}
    overlap = b.load(given["overlap"], align=4, typ=F32, name="threshold")
    least = b.load(given["least"], align=4, typ=F32, name="least_score") if spec.least else None
    number = _limit(b, given.get("count"), spec.count, spec.boxes)
    most = _limit(b, given.get("most"), spec.most, spec.bound)
    candidates = function.args[3]
    box_strides, score_strides, out_strides = spec.strides

    def row(index: ir.Value) -> None:
        batch, kind = b.sdiv(index, const(spec.classes)), b.srem(index, const(spec.classes))
        boxes = _at(b, given["boxes"], ((batch, box_strides[0]),), 4)
        scores = _at(b, given["scores"], ((batch, score_strides[0]), (kind, score_strides[1])), 4)
        out = _at(b, given["out"], ((batch, out_strides[0]), (kind, out_strides[1])), 8)

        def candidate(j: ir.Value) -> ir.Value:
            return element(b, candidates, j, I32)

        def score(i: ir.Value) -> ir.Value:
            return b.load(_at(b, scores, ((i, score_strides[2]),), 4), align=4, typ=F32, name="score")

        def corners(i: ir.Value) -> _Corners:
            sides = [_at(b, boxes, ((i, box_strides[1]), (const(k), box_strides[2])), 4) for k in range(4)]
            return _corners(b, [b.load(side, align=4, typ=F32) for side in sides], spec.centred)

        def keep(i: ir.Value, kept: ir.Value, carried: Values) -> Values:
            """Append candidate i if it is kept, and compare it with the best so far."""
            length, best, best_score = carried
            b.store(b.trunc(i, I32), candidate(length), align=_CANDIDATE_BYTES)
            own = score(i)
            better = b.or_(b.icmp_signed("==", length, const(0)), b.fcmp_ordered(">", own, best_score))
            better = b.and_(kept, better, "better")
            longer = b.add(length, b.zext(kept, I64), name="length")
            return longer, b.select(better, i, best), b.select(better, own, best_score)

        def first(i: ir.Value, carried: Values) -> Values:
            kept = const(1, I1) if least is None else b.fcmp_ordered(">", score(i), least)
            return keep(i, kept, carried)

        none = (const(0), const(0), ir.Constant(F32, 0.0))
        state = for_range(b, const(0), number, 1, none, first, "box")

        def choose(place: ir.Value, carried: Values) -> Values:
            length, best, best_score = carried
            some = b.and_(b.icmp_signed(">", length, const(0)), b.icmp_signed("<", place, most), "some")
            b.store(b.select(some, best, const(-1)), _at(b, out, ((place, out_strides[2]),), 8), align=8)
            chosen = corners(best)

            def filter_candidate(j: ir.Value, left: Values) -> Values:
                i = b.sext(b.load(candidate(j), align=_CANDIDATE_BYTES, typ=I32), I64, "candidate")
                near = _overlaps(b, chosen, corners(i), overlap, ">=" if spec.at_overlap else ">")
                return keep(i, b.not_(b.or_(near, b.icmp_signed("==", i, best))), left)

            return for_range(b, const(0), b.select(some, length, const(0)), 1, none, filter_candidate, "left")

        for_range(b, const(0), const(spec.bound), 1, state, choose, "place")

    return finish_rows(b, row)


def _at(b: ir.IRBuilder, base: ir.Value, steps: tuple[tuple[ir.Value, int], ...], size: int) -> ir.Value:
    """Return the address of an element. steps: index and stride of each dimension, in elements of `size` bytes."""
    for index, stride in steps:
        base = address(b, base, scale_index(b, index, stride * size))
    return base


def _limit(b: ir.IRBuilder, pointer: ir.Value | None, size: int, most: int) -> ir.Value:
    """Return an integer of a run, at least 0 and at most `most`; `most` where there is none. size: its bytes."""
    if pointer is None:
        return const(most)
    value = b.load(pointer, align=size, typ=ir.IntType(8 * size))
    return minimum(b, maximum(b, b.sext(value, I64) if size < 8 else value, const(0)), const(most))


def _corners(b: ir.IRBuilder, sides: list[ir.Value], centred: bool) -> _Corners:
    """Return the corners of a box of two opposite corners, or of centre and size."""
    if centred:
        halves = [b.fmul(side, ir.Constant(F32, 0.5)) for side in sides[2:]]
        low, high = (
            [step(centre, half) for centre, half in zip(sides[:2], halves, strict=True)] for step in (b.fsub, b.fadd)
        )
        return low[0], low[1], high[0], high[1]
    low, high = ([_extreme(b, sign, sides[k], sides[k + 2]) for k in (0, 1)] for sign in ("<", ">"))
    return low[0], low[1], high[0], high[1]


def _extreme(b: ir.IRBuilder, sign: str, x: ir.Value, y: ir.Value) -> ir.Value:
    return b.select(b.fcmp_ordered(sign, x, y), x, y)


def _overlaps(b: ir.IRBuilder, one: _Corners, other: _Corners, threshold: ir.Value, sign: str) -> ir.Value:
    """Return whether two boxes overlap by more than the threshold; boxes without an area overlap nothing."""
    zero = ir.Constant(F32, 0.0)
    low = [_extreme(b, ">", one[k], other[k]) for k in (0, 1)]
    high = [_extreme(b, "<", one[k], other[k]) for k in (2, 3)]
    sides = [_extreme(b, ">", b.fsub(far, near), zero) for near, far in zip(low, high, strict=True)]
    shared = b.fmul(sides[0], sides[1], name="shared")
    areas = [b.fmul(b.fsub(box[2], box[0]), b.fsub(box[3], box[1])) for box in (one, other)]
    union = b.fsub(b.fadd(areas[0], areas[1]), shared, name="union")
    real: Callable[[ir.Value], ir.Value] = lambda size: b.fcmp_ordered(">", size, zero)  # noqa: E731
    exists = b.and_(b.and_(real(areas[0]), real(areas[1])), b.and_(real(shared), real(union)))
    quotient = b.select(exists, b.fdiv(shared, b.select(exists, union, ir.Constant(F32, 1.0))), zero)
    return b.fcmp_ordered(sign, quotient, threshold)


LOWER = {"suppress_boxes": lower_suppress_boxes}
EMIT = {SuppressBoxes: emit_suppress_boxes}
