"""Writes the report of `mavcg auto`: all rounds as one table, and as JSON."""

from typing import TYPE_CHECKING, Any

from mavcg.program.auto_rounds import AutoResult, Round, VersionGain
from mavcg.program.profiling.demangle import demangle
from mavcg.program.report_words import shorten

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
        "versions": [_version_json(version) for version in round_.versions],
        "dropped": [
            {"function": version.function, "core": version.core, "why": version.why} for version in round_.dropped
        ],
        "left": [{"function": name, "why": why} for name, why in round_.left.items()],
        "notes": list(round_.notes),
    }


def _version_json(version: VersionGain) -> dict[str, Any]:
    found = version.measured
    return {
        "function": version.function,
        "core": version.core,
        "gain": version.gain,
        "how": version.how,
        "noise": found.noise if found else None,
        "before": found.before if found else None,
        "after": found.after if found else None,
        "event": found.event if found else None,
    }


def show_auto(result: AutoResult, where: str, threshold: float, console: "Console") -> None:
    """Print a row for each version of each round, and the overall result."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("round", justify="right")
    table.add_column("function")
    table.add_column("share", justify="right")
    table.add_column("version")
    for name in ("before", "after", "gain"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for number, done in enumerate(result.rounds, 1):
        _add_round(table, number, done)
    if result.rounds:
        console.print(table)
        for note in dict.fromkeys(note for done in result.rounds for note in done.notes):
            console.print(f"note: {note}")
        if any(version.measured for done in result.rounds for version in done.versions):
            console.print(
                "before, after: time of the function in a run as generic and as the version; a version is kept if its "
                "gain is more than the noise (±) of these runs"
            )
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
            (v.core, *_figures(v), _verdict(v, dropped.get((name, v.core))))
            for v in round_.versions
            if v.function == name
        ]
        seen = {row[0] for row in rows}
        rows += [
            (core, "", "", "", f"dropped: {why}")
            for (own, core), why in dropped.items()
            if own == name and core not in seen
        ]
        if name in round_.left:
            rows = [("as it was", "", "", "", round_.left[name])]
        for at, row in enumerate(rows or [("", "", "", "", "one version for all cores")]):
            head = (str(number) if first else "", shorten(demangle(name)), share) if at == 0 else ("", "", "")
            table.add_row(*head, *row)
            first = False


def _figures(version: VersionGain) -> tuple[str, str, str]:
    """Return the times as generic and as the core, and the gain with its noise, as texts; "" if not measured."""
    found = version.measured
    if found is None or found.before is None or found.after is None:
        return "", "", "" if version.gain is None else f"{version.gain:+.1%}"
    before, after = (_time_text(time, found.event) for time in (found.before, found.after))
    return before, after, f"{found.fraction:+.1%} ±{found.noise:.1%}"


def _time_text(time: float, event: str) -> str:
    """Return a count of an event as a text: milliseconds of a clock, else millions, such as of cycles."""
    return f"{time / 1e6:.1f} ms" if "clock" in event else f"{time / 1e6:.1f} M"


def _verdict(version: VersionGain, dropped: str | None) -> str:
    if dropped:
        return f"dropped: {dropped}"
    return f"kept: {version.how}" if version.how else "kept"
