"""Input shapes on the command line: one size of a model, several sizes for one library, or bounded dimensions."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from mavcg.errors import MavcgError
from mavcg.importers.declared_shapes import GivenShapes

Shape = tuple[int, ...]
MAX_SIZES = 64
_RANGE = r"\d+(\.\.\d+(:\d+)?)?"
_LENGTHS = rf"{_RANGE}(,{_RANGE})*"
_DIMENSIONS = re.compile(rf"{_LENGTHS}(x{_LENGTHS})*", re.ASCII)
_BOUNDS = re.compile(r"(\d+)\.\.(\d+)(?::(\d+))?", re.ASCII)
MOST_LENGTH = (1 << 31) - 1  # rows of work are counted with 31 bits (runtime/program_check.py)


class Range(NamedTuple):
    """Bounds of a length, both included, of which only multiples of `step` are taken; so are the bounds."""

    least: int
    most: int
    step: int = 1

    def __str__(self) -> str:
        return f"{self.least}..{self.most}" + (f":{self.step}" if self.step > 1 else "")


@dataclass(frozen=True)
class BoundedShapes:
    """Shapes of inputs with bounded dimensions, whose lengths are known in a run only.

    shapes: by input, with a range in place of a length that is bounded.
    """

    shapes: Mapping[str, tuple[int | Range, ...]]

    def longest(self) -> dict[str, Shape]:
        """Return the shapes for the longest lengths."""
        return {name: tuple(d if isinstance(d, int) else d.most for d in shape) for name, shape in self.shapes.items()}

    def __str__(self) -> str:
        return " ".join(f"{name}={'x'.join(map(str, shape))}" for name, shape in self.shapes.items())


def parse_bounds(texts: Sequence[str]) -> BoundedShapes | None:
    """Return the shapes of --shape x=1x1..512x384, in which a range alone is a bounded dimension; None without one.

    32..512:32 are the multiples of 32. A range that is part of a list, as 1..4,8, is a list of lengths (parse_sizes).
    A range may begin with 0, as the past of a cache that grows. Raises: MavcgError for a length that is too large,
    bounds that are no multiples, and for a range beside a list.
    """
    shapes: dict[str, tuple[int | Range, ...]] = {}
    for text in texts:
        name, equals, dims = text.rpartition("=")
        if not equals or not name or not _DIMENSIONS.fullmatch(dims) or name in shapes:
            return None  # parse_sizes says what is wrong
        shapes[name] = lengths_of(dims)
    written = f"--shape {' '.join(texts)}"
    bounds = checked_bounds(shapes, written)
    if bounds and any("," in text.rpartition("=")[2] for text in texts):
        raise MavcgError(
            f"{written}: a range, which is a bounded dimension, beside a list, which is several sizes; give one of both"
        )
    return bounds


def lengths_of(dims: str) -> tuple[int | Range, ...]:
    """Return the lengths and ranges of 1x1..512x384; of a list the first length."""
    return tuple(map(_length_or_range, dims.split("x")))


def checked_bounds(shapes: Mapping[str, tuple[int | Range, ...]], where: str) -> BoundedShapes | None:
    """Return shapes with a bounded dimension; None without one. where: what was written, for errors.

    Raises: MavcgError for a range without a length, or to a length that is too large, and for bounds that are no
    multiples of the step.
    """
    ranges = [length for shape in shapes.values() for length in shape if isinstance(length, tuple)]
    for bounds in ranges:
        _check_range(bounds, where)
        if bounds.most > MOST_LENGTH:
            raise MavcgError(f"{where}: the range {bounds}: lengths are 0 to {MOST_LENGTH}")
    return BoundedShapes(shapes) if ranges else None


def _length_or_range(text: str) -> int | Range:
    """Return the first length of a dimension, or its bounds if it is a range of several lengths."""
    match = _BOUNDS.fullmatch(text)
    if match and int(match[1]) != int(match[2]):
        return _range_of(match)
    return int(text.partition("..")[0].partition(",")[0])


def _range_of(match: re.Match[str]) -> Range:
    return Range(int(match[1]), int(match[2]), int(match[3] or 1))


def _check_range(bounds: Range, where: str) -> None:
    """Raise MavcgError for a range without a length, or with bounds that are no multiples of its step."""
    least, most, step = bounds
    if most < least:
        raise MavcgError(f"{where}: the range {bounds} has no length; write the smaller one first")
    if not step or least % step or most % step:
        inside = [n for n in (-(-least // step) * step, most // step * step) if n] if step else []
        remedy = (
            f"write {inside[0]}..{inside[1]}:{step}" if len(inside) > 1 and inside[0] < inside[1] else "give others"
        )
        raise MavcgError(
            f"{where}: the range {least}..{most}:{step} has the multiples of {step} as lengths, and its bounds "
            f"have to be two of these; {remedy}"
        )


def parse_sizes(texts: Sequence[str]) -> tuple[dict[str, Shape], ...]:
    """Return the input shapes of each size: ({"x": (1, 3)}, {"x": (2, 3)}) for ("x=1,2x3",).

    A dimension is a length, a range 1..8, multiples 32..128:32 or a list 1,4,8; a build of a whole model takes a range
    alone as a bounded dimension (parse_bounds). An input has all combinations of its dimensions; several inputs with
    several sizes are paired, the first size of one with the first of the other. Without texts there is one size.
    Raises: MavcgError for another form, inputs with different numbers of sizes, or more than MAX_SIZES.
    """
    shapes_of: dict[str, list[Shape]] = {}
    for text in texts:
        name, equals, dims = text.rpartition("=")
        if not equals or not name or not _DIMENSIONS.fullmatch(dims):
            raise MavcgError(
                f"--shape {text}: is not NAME=DIMENSIONS; write it as in --shape input=1x3x224x224, or "
                "input=1,4,8x3x224x224 for several sizes"
            )
        if name in shapes_of:
            raise MavcgError(f"--shape {text}: {name} is given twice; give each input one shape, or a range of lengths")
        lengths = [_lengths(dim, text) for dim in dims.split("x")]
        shapes_of[name] = list(product(*lengths))
    counts = {name: len(shapes) for name, shapes in shapes_of.items() if len(shapes) > 1}
    count = max(counts.values(), default=1)
    if count > MAX_SIZES:
        raise MavcgError(
            f"--shape: {count} sizes; a library has at most {MAX_SIZES}: name those that are used, as 1,4,8"
        )
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} has {n}" for name, n in counts.items())
        raise MavcgError(f"--shape: sizes of several inputs are paired, and {listed}; give each input the same number")
    return tuple({name: s[i if len(s) > 1 else 0] for name, s in shapes_of.items()} for i in range(count))


def parse_shapes(texts: Sequence[str], ignore_declared: bool = False) -> GivenShapes:
    """Return {"x": (1, 3, 224, 224)} for ("x=1x3x224x224",). ignore_declared: as in GivenShapes.

    Raises: MavcgError for another form, several sizes, or a bounded dimension.
    """
    if parse_bounds(texts) is not None:
        raise MavcgError(
            f"--shape {' '.join(texts)}: a range is a bounded dimension, which only `mavcg build MODEL` takes; give "
            "one length"
        )
    sizes = parse_sizes(texts)
    if len(sizes) > 1:
        raise MavcgError(f"--shape {' '.join(texts)}: names {len(sizes)} sizes; only `mavcg build MODEL` takes several")
    return GivenShapes(sizes[0], ignore_declared)


def size_text(size: Mapping[str, Shape]) -> str:
    """Return a size in the form of the command line: x=1x3x224x224."""
    return " ".join(f"{name}={'x'.join(map(str, shape))}" for name, shape in size.items())


def _lengths(text: str, shape: str) -> tuple[int, ...]:
    """Return the lengths of one dimension in the order written, without duplicates."""
    lengths: dict[int, None] = {}
    for part in text.split(","):
        match = _BOUNDS.fullmatch(part)
        bounds = _range_of(match) if match else Range(int(part), int(part))
        _check_range(bounds, f"--shape {shape}")
        of_range = range(bounds.least, bounds.most + 1, bounds.step)
        if len(of_range) > MAX_SIZES:
            raise MavcgError(f"--shape {shape}: {part} has {len(of_range)} lengths; a library has at most {MAX_SIZES}")
        lengths.update(dict.fromkeys(of_range))
    return tuple(lengths)
