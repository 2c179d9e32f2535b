"""Loop nests over the elements of several strided operands, shared by element-wise kernels and copies.

Neighbouring dimensions that are contiguous in every operand are merged. A row of work has about ROW_ELEMENTS elements;
where it is cut depends on the shape only, so that it is the same on every core. nest_loops.py emits the loops.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from mavcg.kernels.builder.run_numbers import Number, RunNumbers
from mavcg.specs.kernel import KernelSpec, View
from mavcg.specs.kernel_symbol import sizes_text
from mavcg.specs.serialize import spec_format

ROW_ELEMENTS = 1024  # a multiple of every vector length, so that only the last row of a line has a tail


@spec_format("nest")
@dataclass(frozen=True)
class Nest:
    """Loops over `shape`, outermost first.

    strides: of each operand, one per dimension, in elements; 0 broadcasts. There is at least one dimension; none has
    length 1, except the single one of a scalar, and the last where `single`. single: no row of work extends over
    several indices of the outermost of two or more dimensions, so that rows may end after each (docs/lengths.md).
    """

    shape: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    single: bool = False

    @property
    def row_split(self) -> tuple[int, int]:
        """(dimension, block): a row is `block` steps of this dimension with all that is inside."""
        inner, at = 1, len(self.shape) - 1
        while at > self.single and inner * self.shape[at] <= ROW_ELEMENTS:
            inner *= self.shape[at]
            at -= 1
        return at, max(1, min(self.shape[at], ROW_ELEMENTS // max(1, inner)))

    @property
    def rows(self) -> int:
        """Number of rows of work."""
        at, block = self.row_split
        return prod(self.shape[:at]) * -(-self.shape[at] // block)

    @property
    def elements(self) -> int:
        """Number of elements that the loops visit."""
        return prod(self.shape)


@dataclass(frozen=True)
class NestNumbers:
    """The lengths and strides of a nest, some of which a run may set."""

    shape: tuple[Number, ...]
    strides: tuple[tuple[Number, ...], ...]


def nest_numbers(numbers: RunNumbers, nest: Nest, path: str = "nest") -> NestNumbers:
    """Return the numbers of a nest that lies in a spec at a path."""
    strides = (numbers.along(f"{path}.strides.{i}", each) for i, each in enumerate(nest.strides))
    return NestNumbers(numbers.along(f"{path}.shape", nest.shape), tuple(strides))


class NestKernel(KernelSpec):
    """Base of the specs of kernels that visit the elements of a nest, a block of its rows after the other.

    Those whose nest a run may set have a field `words` (run_numbers.py).
    """

    nest: Nest

    @property
    def symbol_shape(self) -> str:
        return sizes_text(*self.nest.shape)

    @property
    def rows(self) -> int:
        return self.nest.rows

    @property
    def work(self) -> int:
        return self.nest.elements


def broadcast_strides(view: View, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides, in elements, of a view that is broadcast to `shape` by NumPy's rules."""
    missing = len(shape) - len(view.shape)
    return (0,) * missing + tuple(
        0 if length == 1 else stride for length, stride in zip(view.shape, view.strides, strict=True)
    )


def collapse(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> Nest:
    """Return an equivalent nest with as few dimensions as possible, in the same order."""
    if 0 in shape:
        return Nest((0,), tuple((1,) for _ in strides))
    lengths: list[int] = []
    steps: list[tuple[int, ...]] = []  # the stride of each operand, by dimension
    for at, length in enumerate(shape):
        step = tuple(s[at] for s in strides)
        if length == 1:
            continue
        if steps and all(outer == inner * length for outer, inner in zip(steps[-1], step, strict=True)):
            lengths[-1] *= length
            steps[-1] = step
        else:
            lengths.append(length)
            steps.append(step)
    if not lengths:
        return Nest((1,), tuple((1,) for _ in strides))
    return Nest(tuple(lengths), tuple(tuple(step[i] for step in steps) for i in range(len(strides))))
