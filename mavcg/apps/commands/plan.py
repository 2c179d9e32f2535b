"""The verb `mavcg app plan`: plan one memory for an application of several networks."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mavcg.console.option_class import command_of
from mavcg.console.output import Progress, console, note, print_json
from mavcg.console.shared_options import AppMaxError, AppStrategy, AppThreads, IgnoreDeclaredShapes, JsonEverything
from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mavcg.apps.library_plan import LibraryPlan
    from mavcg.apps.measured_front import MeasuredPoint
    from mavcg.apps.plan import ApplicationPlan


@dataclass(frozen=True)
class AppPlanOptions:
    """The command line of `mavcg app plan`."""

    file: Annotated[
        Path,
        typer.Argument(
            metavar="APP.toml", help="File with the networks, their limits and partitions, and which run in parallel."
        ),
    ]
    board: Annotated[str, typer.Option(metavar="B", help="Board to predict for; host is this machine.")]
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the memory over time, as .svg or .png.")] = (
        None
    )
    plot_front: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw memory against time, as .svg or .png.")
    ] = None
    measure: Annotated[
        bool,
        typer.Option(
            "--measure", help="Build every point of the front and run it on this machine; needs --board host."
        ),
    ] = False
    seed: Annotated[int, typer.Option(help="Seed of the search, which decides the result; default 0.")] = 0
    generations: Annotated[
        int, typer.Option(metavar="N", help="Number of generations of the genetic search; default 12.")
    ] = 12
    jobs: Annotated[
        int | None,
        typer.Option("-j", "--jobs", metavar="N", help="Number of compilers at a time; default: one for each CPU."),
    ] = None
    threads: AppThreads = None
    max_error: AppMaxError = None
    strategy: AppStrategy = None
    ignore_declared_shapes: IgnoreDeclaredShapes = False
    as_json: JsonEverything = False


def run_plan(options: AppPlanOptions) -> None:
    """Plan one memory for all networks of an application, with shared buffers, and layers by parts of rows if needed.

    The arena and the weights are those of the library that `mavcg app build` makes with the same options; `memory` in
    APP.toml limits their sum. The other figures are of schedules by the paper's model; throughput is modelled. Of
    networks with periods, a bound of each response, and the names of those that may miss their deadlines. Networks
    with a program take parts_ms of app.toml on the processor, and have memory of their own, which is printed too.

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
    mavcg app plan app.toml --board host --measure --plot-front front.svg
    """
    from mavcg.apps.application_file import read_application_file
    from mavcg.apps.library_plan import plan_library
    from mavcg.apps.measured_front import check_measurable, measure_front, measured_json
    from mavcg.apps.models import read_application
    from mavcg.apps.plan import plan_application, plan_json
    from mavcg.apps.quantised_networks import quantised_files
    from mavcg.apps.search import GeneticLimits
    from mavcg.apps.service.measured import CPU, built_tasks
    from mavcg.apps.service.modelled import FASTEST, MARGIN, modelled_tasks
    from mavcg.apps.service.program_file import given_times, programs_memory_json
    from mavcg.apps.service.served_programs import program_tasks
    from mavcg.apps.service.service_report import service_json, show_service
    from mavcg.drawing.svg_plots import check_plot
    from mavcg.hardware.board import HOST
    from mavcg.model.estimating import board_of
    from mavcg.model.request import ModelOptions, SelectionOptions, make_model_request, parse_threads
    from mavcg.toolchain.codegen import default_workers

    if options.generations < 0:
        raise MavcgError(
            f"--generations {options.generations}: is below 0; give 0 for the first generation only, or more"
        )
    if options.measure and options.board != HOST:
        raise MavcgError(f"--measure: runs on this machine, not on {options.board}; give --board host, or leave it out")
    for picture, option in ((options.plot, "--plot"), (options.plot_front, "--plot-front")):
        if picture is not None:
            check_plot(picture, option)
    described = read_application_file(options.file, options.ignore_declared_shapes)
    on_cpu = CPU if options.measure else FASTEST
    programs = program_tasks(described.programs, given_times(described.programs), 0, MARGIN, on_cpu)
    program_rows = programs_memory_json(described.programs)
    if options.measure:
        check_measurable(described)
    request, _ = make_model_request(
        options.file,
        None,
        ModelOptions(
            board=options.board, threads=parse_threads(options.threads), jobs=options.jobs, max_error=options.max_error
        ),
        SelectionOptions(options.strategy),
    )
    measured: Sequence[MeasuredPoint] = ()
    service: dict[str, Any] | None = None
    with Progress(lines=options.measure) as progress, quantised_files(described, request.target.arch, progress) as own:
        app, times, constraints = read_application(
            own, board_of(options.board), options.jobs or default_workers(), progress
        )
        limits = GeneticLimits(generations=options.generations, seed=options.seed)
        planned = plan_application(app, times, constraints, limits, progress)
        library, refusal = None, ""
        try:
            library = plan_library(own, request, progress)
        except MavcgError as error:
            refusal = str(error)
        if options.measure:
            if library is None:
                raise MavcgError(f"--measure: no library can be built: {refusal}")
            measured = measure_front(own, planned, request, progress)
            if described.periods:
                tasks = built_tasks(own, request, MARGIN, progress)
                service = service_json((*tasks, *programs), "measured", MARGIN)
    if described.periods and service is None:
        service = service_json((*modelled_tasks(described, app, times), *programs), "modelled", MARGIN)
    if options.plot is not None:
        from mavcg.apps.memory_map import draw_memory_map

        draw_memory_map(planned, options.plot)
        note(f"wrote the memory map to {options.plot}")
    if options.plot_front is not None:
        from mavcg.apps.front_picture import draw_front

        draw_front(planned, measured, options.plot_front)
        note(f"wrote the front to {options.plot_front}")
    if options.as_json:
        rows = [measured_json(point, request.threads) for point in measured]
        document = plan_json(planned, library, refusal, rows)
        if program_rows:
            document["programs"] = program_rows
        if service is not None:
            document |= {"service": service, "meets_constraints": document["meets_constraints"] and service["holds"]}
        print_json(document)
        return
    _show_plan(planned, measured)
    _show_library(planned, library, refusal)
    for row in program_rows:
        on_device = row["features_bytes"] + row["parameters_bytes"] + row["code_bytes"]
        console().print(
            f"beside it, program {row['name']}: {on_device:,} bytes on accelerator {row['accelerator']}; its parts on "
            f"the processor: arenas {row['parts_arena_bytes']:,} bytes, weights {row['parts_weights_bytes']:,} bytes",
            soft_wrap=True,
        )
    if service is not None:
        show_service(service, console())


plan = command_of("plan", AppPlanOptions, run_plan)


def _show_plan(planned: "ApplicationPlan", measured: "Sequence[MeasuredPoint]") -> None:
    """Print sizes of buffers by how they are shared, the solutions found, and what is known about their optimality.

    measured: of each point of the front, or empty.
    """
    from rich.table import Table

    out = console()
    table = Table("buffers", "bytes", box=None, pad_edge=False)
    for name, size in (
        ("one for each edge", planned.naive),
        ("shared within each network", planned.reuse_per_cnn),
        ("shared among all networks", planned.reuse_joint),
        ("not shared, all layers by parts", planned.parts),
    ):
        table.add_row(name, f"{size:,}")
    out.print("Schedules, by the paper's model:")
    out.print(table)
    out.print(f"weights in the files: {planned.weights:,} bytes\n")
    names = [cnn.name for cnn in planned.app.cnns]
    front = Table(
        "",
        "arena bytes",
        "layers by parts",
        *(f"{name}, frames/s (modelled)" for name in names),
        *(["library's arena"] if measured else []),
        *(f"{name} (measured)" for name in names if measured),
        box=None,
        pad_edge=False,
    )
    for number, solution in enumerate(planned.front):
        by_parts = sum(count > 1 for count in solution.phases.values())
        speeds = [f"{solution.throughput[name]:.1f}" for name in names]
        if measured:
            speeds.append(f"{measured[number].arena_bytes:,}")
            speeds += [f"{1e3 / measured[number].times[name].median:.1f}" for name in names]
        front.add_row("->" if number == planned.chosen else "", f"{solution.arena.size:,}", str(by_parts), *speeds)
    out.print(front)
    best = planned.front[planned.chosen].arena
    bound = "optimal for its schedule" if best.optimal else f"at least {best.lower_bound:,} for its schedule"
    out.print(f"\nthe schedule marked ->: {best.size:,} bytes; {bound}")
    if planned.front_gap is not None:
        gap = f"{100 * planned.front_gap:.1f} % more live peak than the exact front" if planned.front_gap else "optimal"
        out.print(f"points on the exact front of live peak and time: {len(planned.exact)}; the genetic search: {gap}")


def _show_library(planned: "ApplicationPlan", library: "LibraryPlan | None", refusal: str) -> None:
    """Print the memory of the library that would be built, or why none can be built, and whether limits are kept."""
    from mavcg.apps.plan import meets_limits

    out = console()
    if library is None:
        out.print(f"\nno library can be built: {refusal}", soft_wrap=True)
        total = planned.weights + planned.front[planned.chosen].arena.size
    else:
        arena, bound = library.application.arena_bytes, library.lower_bound_bytes
        least = "no placement of its buffers is smaller" if arena == bound else f"at least {bound:,} for its buffers"
        total = arena + library.resident_weight_bytes
        paged = "" if library.paging is None else f" of which {library.resident_weight_bytes:,} at a time in memory,"
        out.print(
            f"\nthe library of `mavcg app build`: arena {arena:,} bytes ({least}), packed weights "
            f"{library.weight_bytes:,} bytes,{paged} scratch {library.application.scratch_bytes:,} bytes a thread"
        )
    if not meets_limits(planned, library):
        out.print(f"not all limits are met; weights and buffers take {total:,} bytes")
