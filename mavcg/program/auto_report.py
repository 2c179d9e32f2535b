"""Writes the report of `mavcg auto`: all rounds as one table, and as JSON."""

from typing import TYPE_CHECKING, Any

from mavcg.program.auto_rounds import AutoResult, Round
from mavcg.program.profiling.demangle import demangle
from mavcg.program.report import shorten

if TYPE_CHECKING:
    from rich.console import Console


def auto_json(result: AutoResult, where: str) -> dict[str, Any]:
    """Return the JSON document of `mavcg auto --json`; shares and gains are fractions.

    Args:
        where: description of the machine, or the reason why none was used.
    """
    return {
        "rounds": [_round_json(done) for done in result.rounds],
        "library": str(result.library) if result.library else None,
        "waiting": list(result.waiting),
        "measured": result.is_measured,
        "where": where,
    }


def _round_json(round_: Round) -> dict[str, Any]:
    return {
        "functions": list(round_.functions),
        "shares": dict(round_.shares),
        "versions": [{"function": v.function, "core": v.core, "gain": v.gain, "how": v.how} for v in round_.versions],
        "dropped": [
            {"function": version.function, "core": version.core, "why": version.why} for version in round_.dropped
        ],
        "left": [{"function": name, "why": why} for name, why in round_.left.items()],
        "notes": list(round_.notes),
    }


def show_auto(result: AutoResult, where: str, threshold: float, console: "Console") -> None:
    """Print a row for each version of each round, and the overall result."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("round", justify="right")
    table.add_column("function")
    table.add_column("share", justify="right")
    for name in ("version", "gain", ""):
        table.add_column(name, justify="right" if name == "gain" else "left")
    for number, done in enumerate(result.rounds, 1):
        _add_round(table, number, done)
    if result.rounds:
        console.print(table)
        for note in dict.fromkeys(note for done in result.rounds for note in done.notes):
            console.print(f"note: {note}")
        console.print("")
    measured = "measured" if result.is_measured else "nothing was measured, the model alone decided"
    console.print(f"{measured}: {where}")
    percent = f"{100 * threshold:g} %"
    if result.waiting:
        waiting = [demangle(name) for name in result.waiting]
        names = ", ".join(shorten(name, waiting) for name in waiting)
        console.print(f"over {percent} and not taken up, because the rounds are limited: {names}")
    elif result.library is None:
        console.print(f"no function that could have versions takes over {percent} of the run: nothing was built")
    else:
        console.print(f"no further function takes over {percent} of the run: {result.library} is done")


def _add_round(table: Any, number: int, round_: Round) -> None:
    dropped = {(version.function, version.core): version.why for version in round_.dropped}
    known = {version.function for version in round_.versions} | {version.function for version in round_.dropped}
    first = True
    for name in (*round_.functions, *sorted(known - set(round_.functions))):
        share = f"{round_.shares[name]:.1%}" if name in round_.shares else ""
        rows = [
            (v.core, "" if v.gain is None else f"{v.gain:+.1%}", _verdict(v.how, dropped.get((name, v.core))))
            for v in round_.versions
            if v.function == name
        ]
        seen = {core for core, _, _ in rows}
        rows += [
            (core, "", f"dropped: {why}") for (own, core), why in dropped.items() if own == name and core not in seen
        ]
        if name in round_.left:
            rows = [("as it was", "", round_.left[name])]
        for at, row in enumerate(rows or [("", "", "one version for all cores")]):
            head = (str(number) if first else "", shorten(demangle(name)), share) if at == 0 else ("", "", "")
            table.add_row(*head, *row)
            first = False


def _verdict(how: str, dropped: str | None) -> str:
    return f"dropped: {dropped}" if dropped else how
