"""The verbs `mavcg app ..`: plan and build applications of several networks in one memory."""

from typing import Annotated, Any

import typer

from mavcg.apps.commands.build import build
from mavcg.apps.commands.plan import plan
from mavcg.apps.commands.serve import serve
from mavcg.apps.commands.simulate import simulate
from mavcg.console.option_class import group_of
from mavcg.console.output import console, print_json
from mavcg.errors import MavcgError

HELP = """Plan one memory for an application of several networks, and build its library.

\b
mavcg app plan app.toml --board exynos9820
mavcg app build app.toml --board exynos9820 -o libapp.so
mavcg app simulate app.toml --board exynos9820 --plot schedule.svg
mavcg app serve libapp.so --seconds 60
mavcg app example --paper
"""


def example(
    paper: Annotated[
        bool, typer.Option("--paper", help="Print the example of Minakova's thesis, sections 6.4 and 6.5.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print all tables as JSON, with sizes in elements.")] = False,
) -> None:
    """Print the worked example of the method: Tables 6.1 to 6.3 of Minakova's thesis, computed by mavcg.

    \b
    mavcg app example --paper
    mavcg app example --paper --json
    """
    from mavcg.apps.worked_example import example_tables

    if not paper:
        raise MavcgError("app example: the only example is the paper's; write mavcg app example --paper")
    tables = example_tables()
    if as_json:
        print_json(tables)
    else:
        _show_tables(tables)


def _show_tables(tables: dict[str, Any]) -> None:
    from rich.table import Table

    out = console()
    titles = {
        "naive": "Table 6.1: each edge has a buffer of its own",
        "reuse": "Table 6.2: buffers reused (Algorithm 8)",
        "reduced": "Table 6.3: layers 3 to 5 of CNN1 by parts (Algorithm 10)",
    }
    for name, title in titles.items():
        out.print(f"{title}: {tables[name]} elements")
        table = Table("buffer", "edges", "elements", box=None, pad_edge=False)
        for number, row in enumerate(tables["tables"][name], 1):
            table.add_row(f"B{number}", ", ".join(row["edges"]), str(row["size"]))
        out.print(table)
        out.print()
    for name, schedule in tables["schedules"].items():
        out.print(f"{name}: {schedule}")


app = group_of(HELP, plan=plan, build=build, simulate=simulate, serve=serve, example=example)
