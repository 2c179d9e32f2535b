"""Print the ranking of `mavcg profile` as JSON and as a table."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mavcg.console.output import console

if TYPE_CHECKING:
    from mavcg.program.profiling.profile import Profile

NAME_CHARS = 60  # longest name in a table, in characters; --json has whole names


def ranking_json(profile: "Profile", exit_status: int | None = None) -> dict[str, Any]:
    """Return the document of `mavcg profile --json`: functions with the hottest first, shares as fractions.

    exit_status: of the profiled program; None if it was not run.
    """
    from mavcg.program.profiling.ranking import rank

    return {
        "kind": profile.kind,
        "event": profile.event,
        "total": profile.total,
        "records": profile.records,
        "command": profile.command,
        "board": profile.board or None,
        "exit_status": exit_status,
        "functions": [
            {
                "symbol": f.symbol,
                "demangled": f.demangled,
                "object": f.object,
                "samples": f.samples,
                "share": f.share,
                "share_by_core": dict(f.share_by_core),
                "clonable": f.clonable,
                "why_not": f.why_not,
            }
            for f in rank(profile)
        ],
    }


def nothing_json() -> dict[str, Any]:
    """Return the document of `mavcg profile --json` if there is nothing to profile."""
    nothing = dict.fromkeys(("kind", "event", "command", "board", "exit_status", "profile"))
    return {**nothing, "total": 0.0, "records": 0, "functions": []}


def print_table(profile: "Profile", threshold: float, top: int) -> None:
    """Print the ranking as a table, with the reasons why functions are not clonable.

    Args:
        threshold: share above which functions get versions, as a fraction.
        top: number of functions in the table.
    """
    from rich.table import Table
    from rich.text import Text

    from mavcg.program.profiling.names import short_names
    from mavcg.program.profiling.ranking import MIN_CORE_RECORDS, is_over, rank, trusted_cores

    ranked, trusted = rank(profile), trusted_cores(profile)
    cores = sorted({core for function in ranked for core in function.share_by_core})
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("share", justify="right", no_wrap=True)
    for core in cores:
        table.add_column(Text(core if core in trusted else f"{core} *"), justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("function", overflow="fold", ratio=1)
    table.add_column("in", no_wrap=True)
    names = short_names([f.demangled for f in ranked[:top]], NAME_CHARS)
    for f, name in zip(ranked[:top], names, strict=True):
        over = is_over(f, threshold, trusted)
        mark = Text("clone", "bold green") if over and f.clonable else Text("")
        style = "" if f.clonable and over else "dim"
        shares = [percent(f.share), *(percent(f.share_by_core.get(core, 0.0)) for core in cores)]
        table.add_row(
            *(Text(s) for s in shares),
            mark,
            _name(name, f.why_not),
            Text(printable_name(Path(f.object).name)),
            style=style,
        )
    out = console()
    out.print(table)
    omitted = ranked[top:]
    if omitted:
        share = percent(sum(f.share for f in omitted))
        out.print(Text(f"{share} in {len(omitted)} more functions (--top)", "dim"))
    clonable = sum(1 for f in ranked if f.clonable and is_over(f, threshold, trusted))
    size = f"{profile.records} samples" if profile.kind == "samples" else f"{profile.total:.0f} instructions"
    out.print(
        Text(f"{size} ({profile.event}); functions over {100 * threshold:g} %, to get a version per core: {clonable}")
    )
    if any(core not in trusted for core in cores):
        out.print(Text(f"* fewer than {MIN_CORE_RECORDS} samples: too few to judge by this core type alone", "dim"))


def _name(name: str, why_not: str) -> Any:
    from rich.text import Text

    text = Text(printable_name(name))
    if why_not:
        text.append(f"  ({printable_name(why_not.partition(':')[0])})", "italic")
    return text


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def printable_name(text: str) -> str:
    """Return a name from a file with ? in place of characters that are not printable."""
    return "".join(char if char.isprintable() else "?" for char in text)
