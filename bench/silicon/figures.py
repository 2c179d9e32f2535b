"""Lists of published silicon figures: `bench/silicon/*.toml`, read into figures that can be compared with a model.

A list names a source repository, how its functions are called (`[[function]]`) and tables of figures (`[[table]]`),
functions that work through long buffers (`[[stream]]`), or single instructions (`[[instruction]]`). Each figure is of
one core.
"""

import hashlib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.silicon.calls import LATER, Benchmark, Call, checkasm_calls
from mavcg.errors import MavcgError

HERE = Path(__file__).resolve().parent
BLIND = "blind.toml"  # projects that are held out whole, beside the lists
LOT_SEED = 20261123  # of the lot that holds figures out
HELD_OUT = 0.3  # share of kernels that were not seen before
MOST_INSTRUCTIONS = (
    1_500  # of a call; blocks whose calls are longer also leave the first cache, which no model here has
)


@dataclass(frozen=True)
class Figure:
    """One published figure of one core.

    kind: "cycles" of a call (mean over `calls`), "ratio" of the mean over `calls` to that over `before`, "loop":
        cycles an iteration of the call's main loop, or "instruction": cycles an instruction of a loop with the body
        `code`. when: "before" or "after" a commit, of cycles that are compared with one another. less: calls
        whose mean cycles are taken off, where the figure is of the further bytes of a longer call. change: what
        "before" and "after" of one name share, where `published` differs. reason: why no model can be asked; "" where
        one can. seen: known when the models' facts were fitted, so never held out. blind: of a project that is held
        out whole (blind.toml).
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
    less: tuple[Call, ...] = ()
    change: str = ""
    code: str = ""
    reason: str = ""
    seen: bool = False
    blind: bool = False

    @property
    def held_out(self) -> bool:
        """True if the lot took it: facts are never fitted to it. All figures of one kernel share a lot.

        Blind figures are in no lot.
        """
        if self.blind:
            return False
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
    most_instructions: int = MOST_INSTRUCTIONS  # of a call; longer ones are not modelled


def read_lists(folder: Path = HERE) -> tuple[SourceList, ...]:
    """Read every list of a folder. Raises: MavcgError for one that is not as bench/README.md says."""
    blind = blind_projects(folder / BLIND)
    return tuple(_blinded(read_list(path), blind) for path in sorted(folder.glob("*.toml")) if path.name != BLIND)


def blind_projects(path: Path = HERE / BLIND) -> Mapping[str, str]:
    """Read the projects that are held out whole: name of each, which is that of its list, and its address.

    A folder without the file has none. Raises: MavcgError naming the file and an entry that lacks a key.
    """
    if not path.exists():
        return {}
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        return {str(entry["name"]): str(entry["url"]) for entry in entries if entry["why"]}
    except (KeyError, ValueError, TypeError) as error:
        raise MavcgError(f"{path}: not a list of [[project]] with name, url and why ({error!r})") from None


def _blinded(source: SourceList, blind: Mapping[str, str]) -> SourceList:
    """Return a list with its figures marked blind if its name or address is that of a blind project.

    Raises: MavcgError where such a list says that facts were fitted to one of its figures.
    """
    if source.name not in blind and source.url not in blind.values():
        return source
    if any(figure.seen for figure in source.figures):
        raise MavcgError(f"{source.name}: a figure is `seen`, but {BLIND} holds the project out; remove one of the two")
    return replace(source, figures=tuple(replace(figure, blind=True) for figure in source.figures))


def read_list(path: Path) -> SourceList:
    """Read one list. Raises: MavcgError naming file and entry."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        figures = (*_tables(table), *_kernels(table), *_streams(table), *_instructions(table), *_loops(table))
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
            int(table.get("most_instructions", MOST_INSTRUCTIONS)),
        )
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise MavcgError(f"{path}: not a list of silicon figures ({error!r}); bench/README.md has the form") from None


def _kernels(table: Mapping[str, Any]) -> Iterator[Figure]:
    """Yield figures of single calls, or without arguments of an iteration of the main loop, published as cycles, as
    multiply-adds a cycle, or as nanoseconds at the clock that `clock_mhz` has for the core."""
    for entry in table.get("kernel", ()):
        is_loop = "arguments" not in entry
        call = Call(entry["commit"], tuple(entry["files"].split()), entry["symbol"], entry.get("arguments", ""))
        hertz = {core: float(mhz) * 1e6 for core, mhz in table.get("clock_mhz", {}).items()}
        spent = {
            core: (ns * 1e-9 * hertz[core], f"{table['published']}: {ns} ns at {hertz[core] / 1e9:g} GHz")
            for core, ns in entry.get("ns", {}).items()
        }
        rated = {
            core: (entry["macs"] / rate, f"{table['published']}: {rate} multiply-adds a cycle")
            for core, rate in entry.get("macs_per_cycle", {}).items()
        }
        timed = {core: (float(cycles), table["published"]) for core, cycles in entry.get("cycles", {}).items()}
        if not rated and not timed and not spent:
            raise KeyError("macs_per_cycle")
        for core, (cycles, published) in (*rated.items(), *timed.items(), *spent.items()):
            yield Figure(
                source=table["name"],
                name=entry["name"],
                core=core,
                kind="loop" if is_loop else "cycles",
                value=cycles,
                published=published,
                calls=(call,),
                seen=bool(entry.get("seen", False)),
            )


def _streams(table: Mapping[str, Any]) -> Iterator[Figure]:
    """Yield figures of long buffers: the cycles of a longer call minus those of a shorter one.

    Published figures are cycles per byte, or per limb (64 bits of a long number). `variants`: functions that share one
    figure, which is compared with their mean. `limbs_each`: limbs of the figure for each unit of the call's count.
    """
    for entry in table.get("stream", ()):
        unit = "byte" if "bytes" in entry else "limb"
        variants = entry.get("variants", [""])
        short, long = entry[f"{unit}s"]
        short_calls, long_calls = (
            tuple(_stream_call(entry, table["commit"], unit, count, count // short, variant) for variant in variants)
            for count in (short, long)
        )
        for core, published in entry[f"cycles_per_{unit}"].items():
            yield Figure(
                source=table["name"],
                name=entry["name"],
                core=core,
                kind="cycles",
                value=_middle(published) * (long - short) * entry.get("limbs_each", 1),
                published=f"{table['published']}: {published} cycles a {unit}",
                when=entry.get("when", "after"),
                calls=long_calls,
                less=short_calls,
                change=f"{table['name']}: {entry['name']}" if _is_changed(table, entry) else "",
                seen=bool(entry.get("seen", False)),
                reason=entry.get("reason", ""),
            )


def _is_changed(table: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
    """True if another stream of the list has the same name: the two are before and after a change."""
    return bool(sum(stream["name"] == entry["name"] for stream in table["stream"]) > 1)


def _stream_call(entry: Mapping[str, Any], commit: str, unit: str, count: int, blocks: int, variant: Any) -> Call:
    files = tuple(entry["files"].format(variant=variant).split())
    arguments = entry["arguments"].format(**{f"{unit}s": count, "blocks": blocks})
    return Call(entry.get("commit", commit), files, entry["symbol"].format(variant=variant), arguments)


def _middle(published: float | str) -> float:
    """Return a figure, or the middle of a range such as "2.75-3.25", whose ends are of other alignments."""
    ends = [float(end) for end in str(published).split("-")]
    return sum(ends) / len(ends)


def _tables(table: Mapping[str, Any]) -> Iterator[Figure]:
    rules = [(re.compile(rule["names"]), rule) for rule in table.get("function", ())]
    for entry in table.get("table", ()):
        kind, after = entry["kind"], entry["commit"]
        own = after + ("~1" if entry.get("when") == "before" else "")
        rows = entry["rows"] if kind != "speedup" else _speedup_ratios(entry["rows"], entry["over"])
        for name, values in rows.items():
            benchmark = Benchmark(
                entry.get("last_coefficient", {}).get(name),
                bool(entry.get("rows_adjoin", False)),
                bool(entry.get("heights_double", False)),
            )
            reason, calls = _named_calls(name, rules, own, benchmark)
            if kind == "speedup":
                before = _named_calls(_compared_row(name, entry["over"]) or name, rules, own)[1]
            else:
                before = _named_calls(name, rules, f"{own}~1")[1] if kind == "ratio" else ()
            for core, value in zip(entry["cores"], values, strict=True):
                if value == "-":
                    continue
                yield Figure(
                    source=table["name"],
                    name=name,
                    core=core,
                    kind="ratio" if kind == "speedup" else kind,
                    value=float(value) * entry.get("unit", 1),
                    published=f"{table['published']}: {after}",
                    when=entry.get("when", "after"),
                    calls=calls,
                    before=before,
                    reason=reason,
                    seen=bool(entry.get("seen", False)),
                )


_Rules = Sequence[tuple[re.Pattern[str], Mapping[str, Any]]]


def _named_calls(name: str, rules: _Rules, commit: str, benchmark: Benchmark = LATER) -> tuple[str, tuple[Call, ...]]:
    """Return the reason why no model can be asked about a row of this name, and the calls that it is the mean of.

    The first rule that matches counts. `each_of` of a rule names other rows, whose calls are put together.
    """
    match, rule = next((m, rule) for pattern, rule in rules if (m := pattern.fullmatch(name)))
    if "reason" in rule:
        return rule["reason"], ()
    if "each_of" not in rule:
        return "", checkasm_calls(match, rule, commit, benchmark)
    named = [_named_calls(row_name.format(**match.groupdict()), rules, commit) for row_name in rule["each_of"]]
    return "", tuple(call for _, calls in named for call in calls)


def _compared_row(name: str, over: Mapping[str, str]) -> str | None:
    """Return the row that a row of speedups is compared with: the same function with another suffix."""
    suffix = next((suffix for suffix in over if name.endswith(suffix)), None)
    return None if suffix is None else name.removesuffix(suffix) + over[suffix]


def _speedup_ratios(rows: Mapping[str, Sequence[Any]], over: Mapping[str, str]) -> dict[str, list[Any]]:
    """Return times over the times of the rows that they are compared with, of speedups over one and the same code."""
    ratios = {}
    for name, values in rows.items():
        if (base := _compared_row(name, over)) is not None:
            pairs = zip(rows[base], values, strict=True)
            ratios[name] = ["-" if "-" in pair else round(pair[0] / pair[1], 4) for pair in pairs]
    return ratios


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


_LOOP_END = ("subs w0, w0, #1", "b.ne .Lloop")


def _loops(table: Mapping[str, Any]) -> Iterator[Figure]:
    """Yield figures of loops that repeat one instruction.

    `per_cycle` has the instructions per cycle by core, without the two instructions that count the loop; these share
    the figure's cycles, too. In `form`, {d} stands for the destination, and {s} for the register half of the
    destinations away.
    """
    for entry in table.get("loop", ()):
        several, count = int(entry["destinations"]), int(entry["instructions"])
        half = several // 2
        body = [entry["form"].format(d=n % several, s=(n + half) % several) for n in range(count)]
        code = "\n\t".join((*body, *_LOOP_END))
        for core, rate in entry["per_cycle"].items():
            cycles = count / rate / (count + len(_LOOP_END))
            published = f"{table['published']}: {rate} a cycle"
            yield Figure(table["name"], entry["name"], core, "instruction", cycles, published, code=code)
