"""Calls of published functions: what is assembled, and the arguments that dav1d's checkasm passes by block height."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Call:
    """One call of a function: files to assemble at a commit, the symbol, and arguments as for `--args`.

    former: the function's name in older commits; "" where it had no other.
    """

    commit: str
    files: tuple[str, ...]
    symbol: str
    arguments: str
    former: str = ""


@dataclass(frozen=True)
class Benchmark:
    """The differences of a table's benchmark from dav1d's later one.

    last: index of the last coefficient, if it is not the half of them. rows_adjoin: the rows of mc's source lie side by
    side. heights_double: heights are powers of two only.
    """

    last: int | None = None
    rows_adjoin: bool = False
    heights_double: bool = False


LATER = Benchmark()


# Coefficients that checkasm leaves, as the index of the last one: half of the transform's input, or more.
_LAST = {"4x4": (0, 8), "4x8": (0, 16), "8x8": (0, 32), "16x16": (0, 20, 100), "64x16": (0, 20, 300, 300, 300)}


def checkasm_calls(
    match: re.Match[str], rule: Mapping[str, Any], commit: str, benchmark: Benchmark = LATER
) -> tuple[Call, ...]:
    """Return the calls that a rule of `[[function]]` gives for a figure's name, one for each block height."""
    groups = match.groupdict()
    bpc = 8 if groups["bpc"] == "8" else 16
    width, pixel = int(groups.get("w") or 8), bpc // 8
    across = groups.get("xy", "hv")
    values = {
        "w": width,
        "stride": width * pixel,
        "top": 255 if bpc == 8 else 1023,
        "source": 408 * pixel,  # the third pixel of the third row of 135
        "pitch": (width if benchmark.rows_adjoin else 135) * pixel,
        "mx": 7 if "h" in across else 0,
        "my": 9 if "v" in across else 0,
        "line": 128 * pixel,
        "line32": 32 * pixel,
        "eight": 8 * pixel,
        "last": benchmark.last if benchmark.last is not None else _half_of_coefficients(groups),
    }
    form = next(rule["calls"][key] for key in (groups.get("f"), f"{bpc}bpc", "") if key in rule["calls"])
    depth = "8" if bpc == 8 else "10"
    names = {**groups, "bpc": str(bpc), "depth": depth, "f": (groups.get("f") or "").replace("bilinear", "bilin")}
    symbol = rule["symbol"].format(**names)
    former = rule.get("former_symbol", "").format(**names)
    files = tuple(rule["file"][str(bpc)].split())
    # A form that the benchmark passes more often than another is written with its number of times.
    forms = [(form, 1)] if isinstance(form, str) else form
    return tuple(
        Call(commit, files, symbol, words.format(**values, h=height), former)
        for height in _heights(rule["heights"], width, names["f"])
        if not benchmark.heights_double or height & (height - 1) == 0
        for words, times in forms
        for _ in range(times)
    )


def _half_of_coefficients(groups: Mapping[str, str | None]) -> int:
    size = groups.get("size")
    return _LAST.get(size, (0, 20, 100, 300, 600))[int(groups["eob"] or 0)] if size else 0


def _heights(words: str, width: int, function: str) -> Sequence[int]:
    """Return the block heights that checkasm goes through, by the rule's words."""
    if words == "one":
        return (8,)
    if words == "of mc":
        heights = [2 if width <= 32 else width // 4]
        while (after := _next_height(heights[-1])) <= max(min(width * 4, 128), 32):
            heights.append(after)
        return heights
    low, high = {
        "quarter to four times, 4 to 128": (max(width // 4, 4), min(width * 4, 128)),
        "half to two times, 4 to 32": (max(width // 2, 4), min(width * 2, 32)),
        "2 to 128, 64 for width 2": (2, 64 if width == 2 else 128),
        "2 to 32, from 4 for width 128": (4 if width == 128 else 2, 32),
        "quarter to four times, 4 to 64 (filter: 32)": (
            max(width // 4, 4),
            min(width * 4, 32 if function == "filter" else 64),
        ),
        "quarter to four times, 4 to 32 (420: 16)": (
            max(width // 4, 4),
            min(width * 4, 16 if function == "420" else 32),
        ),
    }[words]
    return [low << n for n in range(8) if low << n <= high]


def _next_height(height: int) -> int:
    """Return the height after this one in dav1d's tests/checkasm/mc.c, mc_h_next."""
    if height in (4, 8, 16):
        return height * 3 >> 1
    return (height & (height - 1)) * 2 if height in (6, 12, 24) else height * 2
