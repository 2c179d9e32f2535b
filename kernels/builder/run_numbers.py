"""Numbers of a spec that a run sets: lengths and strides that follow from its bounded dimensions (docs/lengths.md).

A spec that may have such numbers has a field `words` (specs/kernel.py), which says what operand has which of them; the
number at a path behind `BACK` is negative. Path `PLACE.2` is none of the spec's integers: it is where the tensor of
operand 2 begins in its buffer, in bytes, such as inside of a padded image; the operand itself is the buffer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import I32, I64, address, index_value, operand, scale_index
from mavcg.specs.kernel import Words

Number: TypeAlias = int | ir.Value
PLACE, BACK = "place", "-"


@dataclass(frozen=True)
class RunNumbers:
    """The numbers of a spec that a run sets, by path, as values of i64."""

    b: ir.IRBuilder
    values: Mapping[str, ir.Value]

    def operand(self, index: int, name: str = "") -> ir.Value:
        """Emit the pointer of the kernel's operand number `index`, from where its tensor begins in this run."""
        return self.at_place(index, operand(self.b, index, name))

    def at_place(self, index: int, pointer: ir.Value) -> ir.Value:
        """Return the pointer of operand number `index` from where its tensor begins in this run."""
        place = self.values.get(f"{PLACE}.{index}")
        return pointer if place is None else address(self.b, pointer, place)

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
    signed = {path: b.neg(loaded[word]) if path.startswith(BACK) else loaded[word] for path, word in words}
    return RunNumbers(b, {path.removeprefix(BACK): number for path, number in signed.items()})


def fixed_number(number: Number) -> int | None:
    """Return a number that is the same in every run; None for one that a run sets."""
    return number if isinstance(number, int) else None


def multiple(b: ir.IRBuilder, number: Number, factor: int) -> Number:
    """Return number * factor, an int where the number is one."""
    return number * factor if isinstance(number, int) else scale_index(b, number, factor)


def difference(b: ir.IRBuilder, number: Number, less: Number) -> Number:
    """Return number - less, an int where both are."""
    if isinstance(number, int) and isinstance(less, int):
        return number - less
    return b.sub(index_value(number), index_value(less))


def one_less(b: ir.IRBuilder, number: Number) -> Number:
    """Return number - 1, an int where the number is one."""
    return difference(b, number, 1)


def offset_pointer(b: ir.IRBuilder, base: ir.Value, offset: Number, extra: int = 0) -> ir.Value:
    """Return base + offset + extra, in bytes."""
    if isinstance(offset, int):
        return address(b, base, offset + extra)
    return address(b, address(b, base, offset), extra)


def times(b: ir.IRBuilder, index: ir.Value, number: Number, size: int = 1) -> ir.Value:
    """Return index * number * size."""
    if isinstance(number, int):
        return scale_index(b, index, number * size)
    return b.mul(index, scale_index(b, number, size))
