"""The verbs `mavcg app ..`: plan and build applications of several networks in one memory."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mavcg.cli.output import Progress, console, note, print_json
from mavcg.cli.shared_options import Jobs, JsonEverything, JsonReport, MaxMemory, Strip
from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from mavcg.apps.plan import ApplicationPlan

HELP = """Plan one memory for an application of several networks, and build its library.

\b
mavcg app plan app.toml --board exynos9820
mavcg app build app.toml --board exynos9820 -o libapp.so
mavcg app example --paper
"""


def make_application_verbs() -> typer.Typer:
    """Return the command line of `mavcg app`."""
    verbs = typer.Typer(
        help=HELP, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
    )
    verbs.command(name="plan")(plan)
    verbs.command(name="build")(build)
    verbs.command(name="example")(example)
    return verbs


def plan(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="APP.toml", help="File with the networks, their limits and partitions, and which run in parallel."
        ),
    ],
    board: Annotated[str, typer.Option(metavar="B", help="Board to predict for; host is this machine.")],
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the memory over time, as .svg or .png.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the search, which decides the result; default 0.")] = 0,
    generations: Annotated[
        int, typer.Option(metavar="N", help="Number of generations of the genetic search; default 12.")
    ] = 12,
    jobs: Annotated[
        int | None,
        typer.Option("-j", "--jobs", metavar="N", help="Number of compilers at a time; default: one for each CPU."),
    ] = None,
    as_json: JsonEverything = False,
) -> None:
    """Plan one memory for all networks of an application, with shared buffers, and layers by parts of rows if needed.

    Figures show weights and buffers separately; `memory` in APP.toml limits their sum. Throughput is modelled.

    \b
    memory = "20 MB"                 # app.toml; and, if networks run at the same time:
    parallel = [["detector", "recogniser"]]
    [[network]]
    name = "detector"
    file = "detector.onnx"
    throughput = 20                  # frames per second, at least
    partitions = "auto:2"            # a pipeline over two clusters

    \b
    mavcg app plan app.toml --board exynos9820 --plot memory.svg
    mavcg app plan app.toml --board host --json
    """
    from mavcg.apps.application_file import read_application_file
    from mavcg.apps.models import read_application
    from mavcg.apps.plan import plan_application, plan_json
    from mavcg.apps.search import GeneticLimits
    from mavcg.drawing.svg_plots import check_plot
    from mavcg.model_pipeline.estimating import board_of
    from mavcg.toolchain.codegen import default_workers

    if generations < 0:
        raise MavcgError(f"--generations {generations}: is below 0; give 0 for the first generation only, or more")
    if plot is not None:
        check_plot(plot)
    described = read_application_file(file)
    with Progress() as progress:
        app, times, constraints = read_application(described, board_of(board), jobs or default_workers(), progress)
        limits = GeneticLimits(generations=generations, seed=seed)
        planned = plan_application(app, times, constraints, limits, progress)
    if plot is not None:
        from mavcg.apps.memory_map import draw_memory_map

        draw_memory_map(planned, plot)
        note(f"wrote the memory map to {plot}")
    if as_json:
        print_json(plan_json(planned))
    else:
        _show_plan(planned)


def _show_plan(planned: "ApplicationPlan") -> None:
    """Print sizes of buffers by how they are shared, the solutions found, and what is known about their optimality."""
    from rich.table import Table

    out = console()
    table = Table("buffers", "bytes", box=None, pad_edge=False)
    for name, size in (
        ("one for each edge", planned.naive), ("shared within each network", planned.reuse_per_cnn),
        ("shared among all networks", planned.reuse_joint), ("not shared, all layers by parts", planned.parts),
    ):  # fmt: skip
        table.add_row(name, f"{size:,}")
    out.print(table)
    out.print(f"weights: {planned.weights:,} bytes\n")
    names = [cnn.name for cnn in planned.app.cnns]
    front = Table("", "arena bytes", "layers by parts", *(f"{name}, frames/s (modelled)" for name in names),
                  box=None, pad_edge=False)  # fmt: skip
    for number, solution in enumerate(planned.front):
        by_parts = sum(count > 1 for count in solution.phases.values())
        speeds = [f"{solution.throughput[name]:.1f}" for name in names]
        front.add_row("->" if number == planned.chosen else "", f"{solution.arena.size:,}", str(by_parts), *speeds)
    out.print(front)
    best = planned.front[planned.chosen].arena
    bound = "optimal for its schedule" if best.optimal else f"at least {best.lower_bound:,} for its schedule"
    out.print(f"\narena: {best.size:,} bytes; {bound}")
    if planned.front_gap is not None:
        gap = f"{100 * planned.front_gap:.1f} % more live peak than the exact front" if planned.front_gap else "optimal"
        out.print(f"points on the exact front of live peak and time: {len(planned.exact)}; the genetic search: {gap}")
    if not planned.meets:
        total = planned.weights + best.size
        out.print(f"no solution meets all limits; the chosen one takes {total:,} bytes with its weights")


def build(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="APP.toml", help="File with the networks, the memory limit, and which networks run in parallel."
        ),
    ],
    board: Annotated[
        str | None,
        typer.Option(metavar="B", help="Board whose core types get a version each; host is this machine."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="LIB.so", help="The library to write; default: lib<name of APP>.so."),
    ] = None,
    cores: Annotated[str | None, typer.Option(metavar="A,B,..", help="Core types that get a version each.")] = None,
    target: Annotated[
        str | None, typer.Option(metavar="TRIPLE", help="System to build for, such as aarch64-linux-gnu.2.17.")
    ] = None,
    threads: Annotated[
        str | None,
        typer.Option(
            metavar="N|auto",
            help="Number of threads of a context; auto: the number that is predicted to be fastest; default 1.",
        ),
    ] = None,
    tune: Annotated[
        str | None,
        typer.Option(
            metavar="off|fast|best",
            help="Effort spent on rescheduling loops for cores that gain; default fast.",
        ),
    ] = None,
    max_error: Annotated[
        float | None,
        typer.Option(
            metavar="E", help="Largest error of f32 operators, relative to the largest sum in them; default 1e-4."
        ),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            metavar="S", help="How primitives and layouts are chosen, as in `mavcg build`; default pbqp with a board."
        ),
    ] = None,
    strip: Strip = False,
    max_seconds: Annotated[
        float | None,
        typer.Option(metavar="S", help="Longest time for the build, in seconds; default as in `mavcg build`."),
    ] = None,
    max_memory: MaxMemory = None,
    jobs: Jobs = None,
    as_json: JsonReport = False,
) -> None:
    """Build one library of all networks of an application, which share one memory.

    Networks that share memory run one at a time: while one runs, a run of another returns MAVCG_BUSY. Networks that
    `parallel` in APP.toml lists together have separate memories. `memory` in APP.toml limits the sum of packed weights
    and buffers. A header, a pkg-config file and a CMake file are written beside the library.

    \b
    mavcg app build app.toml --board exynos9820 -o libapp.so
    mavcg app build app.toml --board host --json
    mavcg run libapp.so --network detector --seed 0
    """
    from mavcg.apps.application_file import read_application_file
    from mavcg.apps.library import build_application
    from mavcg.apps.library_report import application_json, show_application
    from mavcg.cli.option_values import names_of_option
    from mavcg.cli.resource_limits import build_limits, enforce_limits
    from mavcg.model_pipeline.request import SelectionOptions, make_model_request, parse_threads

    described = read_application_file(file)
    request, _ = make_model_request(
        file, None if output is None else str(output), board, names_of_option(cores), target, (),
        parse_threads(threads), jobs, tune, max_error, SelectionOptions(strategy),
    )  # fmt: skip
    limits = build_limits(max_seconds, max_memory, max((n.file for n in described.networks), key=_size))
    with enforce_limits(limits, str(file)) as progress:
        result = build_application(described, replace(request, strip=strip), progress)
    if as_json:
        print_json(application_json(result))
        return
    show_application(result.note, console())
    companions = ", ".join(path.name for path in result.companions)
    console().print(f"library: {result.output}, {result.library_bytes:,} bytes; beside it {companions}")


def _size(path: Path) -> int:
    return path.stat().st_size


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
