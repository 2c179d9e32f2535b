"""Numbers of a spec that a run sets: lengths and strides that follow from its bounded dimensions (docs/lengths.md).

A spec that may have such numbers has a field `words` (specs/kernel.py), which says what operand has which of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import I32, I64, const, operand, scale_index
from mavcg.specs.kernel import Words

Number: TypeAlias = int | ir.Value


@dataclass(frozen=True)
class RunNumbers:
    """The numbers of a spec that a run sets, by path, as values of i64."""

    values: Mapping[str, ir.Value]

    def at(self, path: str, fixed: int) -> Number:
        """Return the number at a path. fixed: that of the spec, if the run does not set it."""
        return self.values.get(path, fixed)

    def along(self, path: str, fixed: Sequence[int]) -> tuple[Number, ...]:
        """Return the numbers of a tuple at a path."""
        return tuple(self.at(f"{path}.{i}", number) for i, number in enumerate(fixed))


def load_numbers(b: ir.IRBuilder, words: Words, first: int) -> RunNumbers:
    """Emit the loads of a spec's words. first: number of the operand that is word 0."""
    loaded = {
        word: b.zext(b.load(operand(b, first + word, f"word_{word}"), align=4, typ=I32), I64, name=f"number_{word}")
        for word in dict.fromkeys(word for _, word in words)
    }
    return RunNumbers({path: loaded[word] for path, word in words})


def value_of(number: Number) -> ir.Value:
    """Return a number as a value of i64."""
    return const(number) if isinstance(number, int) else number


def times(b: ir.IRBuilder, index: ir.Value, number: Number, size: int = 1) -> ir.Value:
    """Return index * number * size."""
    if isinstance(number, int):
        return scale_index(b, index, number * size)
    return b.mul(index, scale_index(b, number, size))
