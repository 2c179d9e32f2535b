"""Lists of published silicon figures: `bench/silicon/*.toml`, read into figures that can be compared with a model.

A list names a source repository, how its functions are called (`[[function]]`) and tables of figures (`[[table]]`), or
single instructions (`[[instruction]]`). Each figure is of one core.
"""

import hashlib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mavcg.errors import MavcgError

HERE = Path(__file__).resolve().parent
LOT_SEED = 20261123  # of the lot that holds figures out
HELD_OUT = 0.3  # share of kernels that were not seen before


@dataclass(frozen=True)
class Call:
    """One call of a function: files to assemble at a commit, the symbol, and arguments as for `--args`."""

    commit: str
    files: tuple[str, ...]
    symbol: str
    arguments: str


@dataclass(frozen=True)
class Figure:
    """One published figure of one core.

    kind: "cycles" of a call (mean over `calls`), "ratio" of the mean over `calls` to that over `before`, "loop":
        cycles an iteration of the call's main loop, or "instruction": cycles an instruction of a loop with the body
        `code`. when: "before" or "after" a commit, of cycles that are compared with one another. reason: why no model
        can be asked; "" where one can. seen: known when the models' facts were fitted, so never held out.
    """

    source: str
    name: str
    core: str
    kind: str
    value: float
    published: str
    when: str = "after"
    calls: tuple[Call, ...] = ()
    before: tuple[Call, ...] = ()
    code: str = ""
    reason: str = ""
    seen: bool = False

    @property
    def held_out(self) -> bool:
        """True if the lot took it: facts are never fitted to it. All figures of one kernel share a lot."""
        drawn = hashlib.sha256(f"{LOT_SEED} {self.source} {self.name}".encode()).digest()
        return not self.seen and int.from_bytes(drawn[:8], "big") < HELD_OUT * 2**64


@dataclass(frozen=True)
class SourceList:
    """One file of figures, with what is needed to assemble its functions."""

    name: str
    url: str
    folders: tuple[str, ...]
    includes: tuple[str, ...]
    defines: tuple[str, ...]
    flags: tuple[str, ...]
    generated: Mapping[str, str]
    figures: tuple[Figure, ...]
    in_a_row: int = 1  # calls between two readings of the clock


def read_lists(folder: Path = HERE) -> tuple[SourceList, ...]:
    """Read every list of a folder. Raises: MavcgError for one that is not as bench/README.md says."""
    return tuple(read_list(path) for path in sorted(folder.glob("*.toml")))


def read_list(path: Path) -> SourceList:
    """Read one list. Raises: MavcgError naming file and entry."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        figures = (*_tables(table), *_kernels(table), *_instructions(table))
        return SourceList(
            table["name"],
            table["url"],
            tuple(table.get("folders", ())),
            tuple(table.get("includes", ())),
            tuple(table.get("defines", ())),
            tuple(table.get("flags", ())),
            table.get("generated", {}),
            figures,
            int(table.get("in_a_row", 1)),
        )
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise MavcgError(f"{path}: not a list of silicon figures ({error!r}); bench/README.md has the form") from None


def _kernels(table: Mapping[str, Any]) -> Iterator[Figure]:
    """Yield figures of single calls, or without arguments of an iteration of the main loop, published as multiply-adds
    a cycle."""
    for entry in table.get("kernel", ()):
        is_loop = "arguments" not in entry
        call = Call(entry["commit"], tuple(entry["files"].split()), entry["symbol"], entry.get("arguments", ""))
        for core, rate in entry["macs_per_cycle"].items():
            yield Figure(
                source=table["name"],
                name=entry["name"],
                core=core,
                kind="loop" if is_loop else "cycles",
                value=entry["macs"] / rate,
                published=f"{table['published']}: {rate} multiply-adds a cycle",
                calls=(call,),
                seen=bool(entry.get("seen", False)),
            )


def _tables(table: Mapping[str, Any]) -> Iterator[Figure]:
    rules = [(re.compile(rule["names"]), rule) for rule in table.get("function", ())]
    for entry in table.get("table", ()):
        for name, values in entry["rows"].items():
            match, rule = next((m, rule) for pattern, rule in rules if (m := pattern.fullmatch(name)))
            own = entry["commit"] + ("~1" if entry.get("when") == "before" else "")
            drawn = entry.get("last_coefficient", {}).get(name)
            calls = () if "reason" in rule else _calls(match, rule, own, drawn)
            ratio = entry["kind"] == "ratio"
            for core, value in zip(entry["cores"], values, strict=True):
                if value == "-":
                    continue
                yield Figure(
                    source=table["name"],
                    name=name,
                    core=core,
                    kind=entry["kind"],
                    value=float(value),
                    published=f"{table['published']}: {entry['commit']}",
                    when=entry.get("when", "after"),
                    calls=calls,
                    before=_calls(match, rule, f"{own}~1") if ratio and calls else (),
                    reason=rule.get("reason", ""),
                    seen=bool(entry.get("seen", False)),
                )


def _instructions(table: Mapping[str, Any]) -> Iterator[Figure]:
    """Yield figures of single instructions: `cores` has [latency, instructions a cycle] by core."""
    for entry in table.get("instruction", ()):
        for core, (latency, rate) in entry["cores"].items():
            for what, value, code in (("latency", latency, entry.get("chain")), ("rate", rate, entry["code"])):
                if value != "-" and code is not None:
                    cycles = float(value) if what == "latency" else 1 / float(value)
                    published = f"{table['published']}: {entry['row']}"
                    name = f"{entry['row']}, {what}"
                    seen = core in table.get("seen", ())
                    yield Figure(table["name"], name, core, "instruction", cycles, published, code=code, seen=seen)


# Coefficients that checkasm leaves, as the index of the last one: half of the transform's input, or more.
_LAST = {"4x4": (0, 8), "4x8": (0, 16), "8x8": (0, 32), "16x16": (0, 20, 100), "64x16": (0, 20, 300, 300, 300)}


def _calls(match: re.Match[str], rule: Mapping[str, Any], commit: str, last: int | None = None) -> tuple[Call, ...]:
    """last: of the coefficients, where the table's benchmark drew another one than half of them."""
    groups = match.groupdict()
    bpc = 8 if groups["bpc"] == "8" else 16
    width, pixel = int(groups.get("w") or 8), bpc // 8
    across = groups.get("xy", "hv")
    values = {
        "w": width,
        "stride": width * pixel,
        "top": 255 if bpc == 8 else 1023,
        "source": 408 * pixel,  # the third pixel of the third row of 135
        "pitch": 135 * pixel,
        "mx": 7 if "h" in across else 0,
        "my": 9 if "v" in across else 0,
        "line": 128 * pixel,
        "line32": 32 * pixel,
        "eight": 8 * pixel,
        "last": last if last is not None else _half_of_coefficients(groups),
    }
    form = rule["calls"][groups["f"] if groups.get("f") in rule["calls"] else ""]
    names = {**groups, "bpc": str(bpc), "f": (groups.get("f") or "").replace("bilinear", "bilin")}
    symbol = rule["symbol"].format(**names)
    files = tuple(rule["file"][str(bpc)].split())
    return tuple(
        Call(commit, files, symbol, form.format(**values, h=height))
        for height in _heights(rule["heights"], width, names["f"])
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
