"""The table of found facts that `mavcg calibrate` prints."""

from collections.abc import Mapping

from mavcg.console.output import console, note


def show_facts(title: str, heading: str, before: Mapping[str, float], found: Mapping[str, float]) -> None:
    """Print found facts beside others, those that differ first, and the number of those that do not."""
    from rich.table import Table

    table = Table("fact", title=f"facts of {title}")
    for column in (heading, "found"):
        table.add_column(column, justify="right")
    same = 0
    for name, value in found.items():
        known = before.get(name)
        if known == value:
            same += 1
            continue
        table.add_row(name, "" if known is None else f"{known:g}", f"{value:g}")
    if table.row_count:
        console().print(table)
    note(f"{title}: {same} of {len(found)} facts are as before")
