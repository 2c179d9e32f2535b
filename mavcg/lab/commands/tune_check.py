"""Print what a machine reports about itself, for `mavcg tune --check`."""

from typing import Any

from mavcg.console.output import console, note, print_json
from mavcg.errors import MavcgError
from mavcg.lab.commands.tune_options import HOST, SIMULATE


def check_machine(board_name: str, runner_name: str, as_json: bool, insecure: bool = False) -> None:
    """Print the facts that a machine reports, its differences from the board's profile, and hints.

    Args:
        board_name: value of --board.
        runner_name: value of --runner.
        as_json: print a document.
        insecure: allow plain TCP to a fleet's scheduler on another machine.
    Raises: MavcgError for a machine that is not reached, and for --runner simulate.
    """
    from mavcg.hosts.host import find_board
    from mavcg.lab.commands.tune_fleet import check_fleet, is_fleet, open_fleet
    from mavcg.lab.runners.open import open_runner
    from mavcg.lab.tuning.tune_network import facts_document

    if runner_name == SIMULATE:
        raise MavcgError(f"tune --check: --runner {SIMULATE} uses no machine; leave one of the two options out")
    if is_fleet(runner_name):
        check_fleet(open_fleet(runner_name, None if board_name == HOST else board_name, insecure), as_json)
        return
    with open_runner(runner_name) as runner:
        facts = runner.facts()
    board = None if board_name == HOST else find_board(board_name)
    document = facts_document(runner_name, facts, board)
    if as_json:
        print_json(document)
    else:
        _show_facts(document)
    for message in (*document["differences"], *document["hints"]):
        note(f"{runner_name}: {message}")


def _show_facts(document: dict[str, Any]) -> None:
    """Print the CPUs in groups with equal facts, then memory, disk and temperatures."""
    from rich.table import Table

    from mavcg.hardware.cpu_list import cpu_ranges

    groups: dict[tuple[object, ...], list[int]] = {}
    for cpu in document["cpus"]:
        state = "switched off" if not cpu["online"] else "" if cpu["allowed"] else "not allowed"
        clocks = ["" if cpu[key] is None else f"{cpu[key] / 1e6:.2f}" for key in ("khz", "limit_khz", "most_khz")]
        row = (cpu["core"] or "generic", cpu["how"], *clocks, cpu["governor"], state)
        groups.setdefault(row, []).append(cpu["cpu"])
    columns = ("CPUs", "core", "how it is known", "GHz now", "limit", "maximum", "governor", "")
    title = " ".join(filter(None, (document["runner"], document["model"], document["system"])))
    table = Table(*columns, title=title)
    for row, cpus in groups.items():
        table.add_row(cpu_ranges(cpus), *map(str, row))
    out = console()
    out.print(table)
    room = [
        f"{document[key] / 1e9:.1f} GB {kind}"
        for key, kind in (("memory_bytes", "of memory available"), ("free_bytes", "free for temporary files"))
        if document[key] is not None
    ]
    heat = [f"{zone} {celsius:.0f}" for zone, celsius in document["celsius"].items()]
    out.print("; ".join([*room, *([f"temperatures in degrees Celsius: {', '.join(heat)}"] if heat else [])]))
