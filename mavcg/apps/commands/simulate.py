"""The verb `mavcg app simulate`: simulate an application's networks as periodic jobs."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mavcg.console.option_class import command_of
from mavcg.console.output import Progress, console, note, print_json
from mavcg.console.shared_options import IgnoreDeclaredShapes, JsonEverything
from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from mavcg.apps.application_file import ApplicationFile
    from mavcg.apps.service.periodic_task import PeriodicTask
    from mavcg.apps.service.simulator import Durations

_MOST_JOBS, _MOST_SECTIONS = 1_000_000, 10_000_000  # that are simulated
_LEAST_SHARE = 0.5  # of a section's worst-case time, where times are random


@dataclass(frozen=True)
class AppSimulateOptions:
    """The command line of `mavcg app simulate`."""

    file: Annotated[
        Path, typer.Argument(metavar="APP.toml", help="File with the networks, their periods, deadlines, priorities.")
    ]
    board: Annotated[str, typer.Option(metavar="B", help="Board to predict for; host is this machine.")]
    seconds: Annotated[float, typer.Option(metavar="S", help="Simulated time, in seconds; default 1.")] = 1.0
    margin: Annotated[
        float, typer.Option(metavar="PERCENT", help="Added to all times, as predictions are not bounds; default 20.")
    ] = 20.0
    measure: Annotated[
        bool,
        typer.Option("--measure", help="Build the library and time it on this machine; needs --board host."),
    ] = False
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", help="Let times and first releases vary at random; without it, the worst case."),
    ] = None
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the schedule, as .svg or .png.")] = None
    jobs: Annotated[
        int | None,
        typer.Option("-j", "--jobs", metavar="N", help="Number of compilers at a time; default: one for each CPU."),
    ] = None
    ignore_declared_shapes: IgnoreDeclaredShapes = False
    as_json: JsonEverything = False


def run_simulate(options: AppSimulateOptions) -> None:
    """Simulate the networks of an application as periodic jobs, with preemption between steps.

    All networks are released together at first, and take their worst-case time, which is predicted: a layer is a
    section that is not preempted. With --measure they are those of the library. The report has the bound of each
    network's response, and what was simulated. A network with a program takes the simulated times of its segments on
    the accelerator, and parts_ms of app.toml on the processor.

    \b
    [[network]]                      # app.toml
    name = "detector"
    file = "detector.onnx"
    period_ms = 33
    deadline_ms = 20                 # after the release; without it, the period
    priority = 2                     # the largest first; without it, the shorter deadline first

    \b
    mavcg app simulate app.toml --board exynos9820
    mavcg app simulate app.toml --board host --measure --seconds 0.2 --plot schedule.svg
    """
    from mavcg.apps.application_file import read_application_file
    from mavcg.apps.service.gantt import draw_gantt
    from mavcg.apps.service.service_report import schedule_json, service_json, show_schedule, show_service
    from mavcg.apps.service.simulator import simulate as simulate_jobs
    from mavcg.drawing.svg_plots import check_plot

    if options.plot is not None:
        check_plot(options.plot)
    if not 0 <= options.margin <= 1000:
        raise MavcgError(f"--margin {options.margin:g}: is not a percentage from 0 to 1000")
    described = read_application_file(options.file, options.ignore_declared_shapes)
    if not described.periods:
        raise MavcgError(f"{options.file}: no network has a period; give each [[network]] period_ms")
    every = (*described.periods, *(own.periodic for own in described.programs))
    releases = sum(options.seconds * 1e9 / own.period_ns for own in every)
    if not 0 < releases <= _MOST_JOBS:
        raise MavcgError(
            f"--seconds {options.seconds:g}: {releases:.0f} jobs are released in them; give a time from above 0 "
            f"in which at most {_MOST_JOBS} are"
        )
    tasks, source = _tasks(options, described), "measured" if options.measure else "modelled"
    sections = sum(
        options.seconds * 1e9 / task.period_ns * sum(len(stage.sections) for stage in task.stages) for task in tasks
    )
    if sections > _MOST_SECTIONS:
        raise MavcgError(
            f"--seconds {options.seconds:g}: {sections:.0f} steps run in them; give a time in which at most "
            f"{_MOST_SECTIONS} do"
        )
    offsets, durations = (None, None) if options.seed is None else _random_times(tasks, options.seed)
    schedule = simulate_jobs(tasks, round(options.seconds * 1e9), offsets, durations)
    if options.plot is not None:
        draw_gantt(tasks, schedule, f"{options.file.name} on {options.board}, times {source}", options.plot)
        note(f"wrote the schedule to {options.plot}")
    service, rows = service_json(tasks, source, options.margin / 100), schedule_json(tasks, schedule)
    if options.as_json:
        print_json({"board": options.board, "seconds": options.seconds, "service": service, "simulated": rows})
        return
    show_service(service, console())
    show_schedule(rows, options.seconds, console())


def _tasks(options: AppSimulateOptions, described: "ApplicationFile") -> "tuple[PeriodicTask, ...]":
    """Return the networks as tasks, with times predicted for the board or measured on this machine.

    Those of programs follow, with the times of their parts in app.toml.
    """
    from mavcg.apps.models import read_application
    from mavcg.apps.quantised_networks import quantised_files
    from mavcg.apps.service.measured import CPU, built_tasks
    from mavcg.apps.service.modelled import FASTEST, modelled_tasks
    from mavcg.apps.service.program_file import given_times
    from mavcg.apps.service.served_programs import program_tasks
    from mavcg.hardware.board import HOST
    from mavcg.model.estimating import board_of
    from mavcg.model.request import ModelOptions, make_model_request
    from mavcg.toolchain.codegen import default_workers
    from mavcg.toolchain.target import parse_target

    if options.measure and options.board != HOST:
        raise MavcgError(f"--measure: runs on this machine, not on {options.board}; give --board host, or leave it out")
    board, workers = board_of(options.board), options.jobs or default_workers()
    arch, margin = parse_target(board.target).arch, options.margin / 100
    cpu = CPU if options.measure else FASTEST
    programs = program_tasks(described.programs, given_times(described.programs), 0, margin, cpu)
    with Progress() as progress, quantised_files(described, arch, progress) as converted:
        if options.measure:
            request, _ = make_model_request(options.file, None, ModelOptions(board=options.board, jobs=options.jobs))
            return (*built_tasks(converted, request, margin, progress), *programs)
        app, times, _ = read_application(converted, board, workers, progress)
        return (*modelled_tasks(converted, app, times, margin), *programs)


def _random_times(tasks: "Sequence[PeriodicTask]", seed: int) -> "tuple[dict[str, int], Durations]":
    """Return first releases within a period, and sections of at least a share of their worst-case time."""
    generator = random.Random(seed)
    stages = {task.name: task.stages for task in tasks}

    def durations(name: str, job: int, stage: int) -> list[int]:
        return [generator.randint(max(1, round(_LEAST_SHARE * ns)), ns) for ns in stages[name][stage].sections]

    return {task.name: generator.randrange(task.period_ns) for task in tasks}, durations


simulate = command_of("simulate", AppSimulateOptions, run_simulate)
