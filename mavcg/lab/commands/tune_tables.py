"""Print the costs that `mavcg tune` measured as tables."""

from typing import Any

from mavcg.console.output import console
from mavcg.lab.commands.tune_options import SIMULATE


def show_costs(document: dict[str, Any]) -> None:
    """Print the fastest primitives of each core; of a fleet those of each board type, and the boards."""
    if "types" in document:
        from mavcg.lab.commands.tune_fleet import show_fleet

        for board_type in document["types"]:
            _show_cores(board_type, str(document["db"]), f"{board_type['type']}: ")
        show_fleet(document)
    else:
        _show_cores(document, str(document["db"]), "")


def _show_cores(document: dict[str, Any], database: str, prefix: str) -> None:
    from rich.table import Table

    from mavcg.hardware.cpu_list import cpus_text

    out = console()
    for core in document["cores"]:
        label = ", ".join(filter(None, (core["core"], cpus_text(core["cpus"]))))
        headings = ("C,H,W,stride,K,M,pad,groups", "fastest by itself", "ms", "GMAC/s", "is")
        table = Table(*headings, title=f"{prefix}On {label}")
        for row in core["fastest"]:
            rate = row["macs"] / row["ms"] / 1e6 if row["ms"] else 0.0
            table.add_row(row["scenario"], row["primitive"], f"{row['ms']:.3f}", f"{rate:.1f}", row["kind"])
        out.print(table)
        out.print(_summary(core, document.get("runner") == SIMULATE) + f": {database}")


def _summary(core: dict[str, Any], simulated: bool) -> str:
    """Return a sentence on what was measured on a core, and what is left."""
    failed = f", {len(core['failed'])} cannot be measured" if core["failed"] else ""
    interleaved = (
        ""
        if simulated
        else f"; the fastest of {core['in_turns']} convolutions by interleaved measurement, "
        f"{core['undecided']} undecided"
    )
    return (
        f"{core['measured']} {'simulated' if simulated else 'measured'} in {core['seconds']:.0f} s, "
        f"{core['already']} known already, {core['pruned']} left out by the model, {core['left']} left to do"
        f"{failed}{interleaved}"
    )
