"""Input shapes on the command line: one size of a model, several sizes for one library, or bounded dimensions."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from mavcg.errors import MavcgError
from mavcg.importers.declared_shapes import GivenShapes

Shape = tuple[int, ...]
Range = tuple[int, int]  # bounds of a length, both included
MAX_SIZES = 64
_LENGTHS = r"\d+(\.\.\d+)?(,\d+(\.\.\d+)?)*"
_DIMENSIONS = re.compile(rf"{_LENGTHS}(x{_LENGTHS})*", re.ASCII)
_BOUNDS = re.compile(r"(\d+)\.\.(\d+)", re.ASCII)
MOST_LENGTH = (1 << 31) - 1  # rows of work are counted with 31 bits (runtime/program_check.py)


@dataclass(frozen=True)
class BoundedShapes:
    """Shapes of inputs with bounded dimensions, whose lengths are known in a run only.

    shapes: by input; a range in place of a length: bounds, both included.
    """

    shapes: Mapping[str, tuple[int | Range, ...]]

    def longest(self) -> dict[str, Shape]:
        """Return the shapes for the longest lengths."""
        return {name: tuple(d if isinstance(d, int) else d[1] for d in shape) for name, shape in self.shapes.items()}

    def __str__(self) -> str:
        return " ".join(
            f"{name}={'x'.join(str(d) if isinstance(d, int) else f'{d[0]}..{d[1]}' for d in shape)}"
            for name, shape in self.shapes.items()
        )


def parse_bounds(texts: Sequence[str]) -> BoundedShapes | None:
    """Return the shapes of --shape x=1x1..512x384, in which a range alone is a bounded dimension; None without one.

    A range that is part of a list, as 1..4,8, is a list of lengths (parse_sizes). Raises: MavcgError for a length of 0
    or one that is too large, and for a range beside a list.
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

    Raises: MavcgError for a range without a length, from 0 or to a length that is too large.
    """
    ranges = [length for shape in shapes.values() for length in shape if isinstance(length, tuple)]
    for least, most in ranges:
        if most < least:
            raise MavcgError(f"{where}: the range {least}..{most} has no length; write the smaller one first")
        if least < 1 or most > MOST_LENGTH:
            raise MavcgError(f"{where}: the range {least}..{most}: lengths are 1 to {MOST_LENGTH}")
    return BoundedShapes(shapes) if ranges else None


def _length_or_range(text: str) -> int | Range:
    """Return the first length of a dimension, or its bounds if it is a range of several lengths."""
    match = _BOUNDS.fullmatch(text)
    if match and int(match[1]) != int(match[2]):
        return int(match[1]), int(match[2])
    return int(text.partition("..")[0].partition(",")[0])


def parse_sizes(texts: Sequence[str]) -> tuple[dict[str, Shape], ...]:
    """Return the input shapes of each size: ({"x": (1, 3)}, {"x": (2, 3)}) for ("x=1,2x3",).

    A dimension is a length, a range 1..8 or a list 1,4,8; a build of a whole model takes a range alone as a bounded
    dimension (parse_bounds). An input has all combinations of its dimensions; several
    inputs with several sizes are paired, the first size of one with the first of the other. Without texts there is one
    size. Raises: MavcgError for another form, inputs with different numbers of sizes, or more than MAX_SIZES.
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
        first, dots, last = part.partition("..")
        begin, end = int(first), int(last) if dots else int(first)
        if end < begin:
            raise MavcgError(f"--shape {shape}: the range {part} has no length; write the smaller one first")
        if end - begin >= MAX_SIZES:
            raise MavcgError(
                f"--shape {shape}: {part} has {end - begin + 1} lengths; a library has at most {MAX_SIZES}"
            )
        lengths.update(dict.fromkeys(range(begin, end + 1)))
    return tuple(lengths)
