"""Kernels of transposes between strided views: squares in registers, or two to four lines interleaved or separated."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

from llvmlite import ir

from mavcg.graph import Graph, Node
from mavcg.kernels.builder.emit import const, finish_rows, kernel_function, operand, row_count, scale_index
from mavcg.kernels.builder.nest import Nest, collapse
from mavcg.kernels.builder.nest_loops import advance, decode, minimum
from mavcg.kernels.tensor.copies import copy_steps
from mavcg.kernels.tensor.transpose_blocks import Plane, Range, interleave, separate, squares
from mavcg.specs.kernel import KernelSpec, Machine, Operand, Packing, Step, View
from mavcg.specs.kernel_symbol import sizes_text
from mavcg.specs.serialize import spec_format

_BLOCK = 64  # elements of a side of a block: a multiple of every tile, and a few cache lines


@spec_format("transpose")
@dataclass(frozen=True)
class TransposeSpec(KernelSpec):
    """A transposing copy: the target is contiguous along dimension q, the source along dimension p.

    nest: loops with strides of source and target; its last dimension is q. across: number of dimension p. A row of work
    is a block along p and q at one index of the other dimensions.

    free: the dimension whose length follows from a count of the run, `longest` of which its length in the nest is a
    multiple; -1: none. scaled: strides that are so, too, as (0 for the source's or 1 for the target's, dimension); one
    of p or q. Operands: source, target, count?.
    """

    item_bytes: int
    nest: Nest
    across: int
    free: int = -1
    longest: int = 0
    scaled: tuple[tuple[int, int], ...] = ()

    @property
    def family(self) -> str:
        return f"transpose_{self.item_bytes * 8}"

    @property
    def symbol_shape(self) -> str:
        return sizes_text(*self.nest.shape)

    @property
    def sides(self) -> tuple[int, int]:
        """Lengths of the dimensions p and q."""
        return self.nest.shape[self.across], self.nest.shape[-1]

    @property
    def blocks(self) -> tuple[int, int]:
        """Elements of a block along p and along q."""
        p, q = self.sides
        narrow_p, narrow_q = min(p, _BLOCK), min(q, _BLOCK)
        return min(p, _BLOCK * (_BLOCK // narrow_q)), min(q, _BLOCK * (_BLOCK // narrow_p))

    @property
    def outer(self) -> tuple[int, ...]:
        """Numbers of the dimensions other than p and q."""
        return tuple(i for i in range(len(self.nest.shape) - 1) if i != self.across)

    @property
    def row_loops(self) -> tuple[tuple[int, int], ...]:
        """(dimension, number) of each loop over rows: of the free dimension, of others, of blocks along p, along q."""
        p, q = (-(-side // block) for side, block in zip(self.sides, self.blocks, strict=True))
        loops = [*((i, self.nest.shape[i]) for i in self.outer), (self.across, p), (len(self.nest.shape) - 1, q)]
        return tuple(sorted(loops, key=lambda loop: loop[0] != self.free))

    @property
    def free_block(self) -> int:
        """Indices of the free dimension in a row of work."""
        blocks = dict(zip((self.across, len(self.nest.shape) - 1), self.blocks, strict=True))
        return blocks.get(self.free, 1)

    @property
    def rows(self) -> int:
        return prod(number for _, number in self.row_loops)

    @property
    def work(self) -> int:
        return 2 * self.nest.elements


def transpose_steps(source: str, target: str, item_bytes: int, nest: Nest, origin: str = "") -> tuple[Step, ...]:
    """Return the step of a copy between two views of the same shape, with loops in the target's order."""
    from_, to = nest.strides
    dense = [i for i, step in enumerate(from_[:-1]) if step == 1 and nest.shape[i] > 1]
    if nest.elements == 0 or to[-1] != 1 or from_[-1] in (0, 1) or not dense:
        return copy_steps(source, target, item_bytes, nest, origin=origin)
    spec = TransposeSpec(item_bytes, nest, dense[-1])
    return (Step(spec, (Operand(source), Operand(target, written=True)), origin),)


def _block_routine(spec: TransposeSpec, machine: Machine) -> Callable[[ir.IRBuilder, Plane, Range, Range], None]:
    """Return the emitter of a block, chosen by the lengths and strides of p and q."""
    size = spec.item_bytes
    (p, q), n = spec.sides, 16 // size
    lanes = machine.vector_bytes // size
    source, target = spec.nest.strides
    if 2 <= q <= 4 and target[spec.across] == q and spec.free != len(source) - 1:
        return lambda b, plane, ps, qs: interleave(b, plane, ps, qs, lanes, q)
    if 2 <= p <= 4 and source[-1] == p and spec.free != spec.across:
        return lambda b, plane, ps, qs: separate(b, plane, ps, qs, lanes, p)
    # A square of bytes has 16 elements on a side already: one group.
    most = machine.vector_bytes // 16 if size > 1 else 1
    groups = [g for g in (4, 2, 1) if g <= most and n * g <= q] if p >= n else []
    return lambda b, plane, ps, qs: squares(b, plane, ps, qs, groups)


def emit_transpose(module: ir.Module, spec: TransposeSpec, machine: Machine) -> ir.Function:
    """Emit a transpose, block by block."""
    _, b = kernel_function(module, spec, machine)
    size = spec.item_bytes
    pointers = [operand(b, 0, "source"), operand(b, 1, "target")]
    source, target = spec.nest.strides
    transpose_block = _block_routine(spec, machine)
    count = row_count(b, 2) if spec.free >= 0 else const(0)

    def step(operand_number: int, dim: int) -> int | ir.Value:
        """Return the distance of neighbours along a dimension of p and q, in bytes."""
        elements = (source, target)[operand_number][dim]
        if (operand_number, dim) in spec.scaled:
            return scale_index(b, count, elements // spec.longest * size)
        return elements * size

    steps = step(0, len(source) - 1), step(1, spec.across)

    def row(index: ir.Value) -> None:
        indices = decode(b, index, [number for _, number in spec.row_loops])
        at = {dim: i for (dim, _), i in zip(spec.row_loops, indices, strict=True)}
        addresses: list[ir.Value] = list(pointers)
        for dim in spec.outer:
            addresses = advance(b, addresses, (source[dim], target[dim]), at[dim], (size, size))
        ranges = []
        for dim, block in zip((spec.across, len(source) - 1), spec.blocks, strict=True):
            length = spec.nest.shape[dim]
            end = scale_index(b, count, length // spec.longest) if dim == spec.free else const(length)
            begin = b.mul(at[dim], const(block)) if block < length else const(0)
            ranges.append((begin, minimum(b, b.add(begin, const(block)), end) if block < length else end))
        transpose_block(b, Plane(addresses[0], addresses[1], size, *steps), *ranges)

    return finish_rows(b, row)


def _lower(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    x, y = views[node.inputs[0]], views[node.output]
    nest = collapse(y.shape, ([x.strides[i] for i in node.attr("perm")], y.strides))
    return transpose_steps(node.inputs[0], node.output, y.item_bytes, nest, node.origin)


LOWER = {"transpose": _lower}
EMIT = {TransposeSpec: emit_transpose}
HALF = {"transpose": ()}
