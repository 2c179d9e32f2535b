"""The verb `mavcg app serve`: run an application's networks as periodic jobs on this machine."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mavcg.console.option_class import command_of
from mavcg.console.output import Progress, console, note, print_json
from mavcg.console.shared_options import JsonEverything
from mavcg.errors import MavcgError

_MOST_JOBS = 5_000_000


@dataclass(frozen=True)
class AppServeOptions:
    """The command line of `mavcg app serve`."""

    library: Annotated[
        Path, typer.Argument(metavar="LIB.so", help="Library that `mavcg app build` made of networks with periods.")
    ]
    seconds: Annotated[float, typer.Option(metavar="S", help="Time to run, in seconds; default 10.")] = 10.0
    threads: Annotated[int, typer.Option(metavar="N", help="Threads of each network's run; default 1.")] = 1
    measure_seconds: Annotated[
        float,
        typer.Option(
            metavar="S",
            help="Time for measuring the networks before, in seconds, and once more without the programs of "
            "accelerators if there are any; default 3.",
        ),
    ] = 3.0
    margin: Annotated[
        float,
        typer.Option(metavar="PERCENT", help="Added to all measured times, as they are not bounds; default 20."),
    ] = 20.0
    realtime: Annotated[
        bool, typer.Option("--realtime", help="Run before all other programs (SCHED_FIFO); needs the right to do so.")
    ] = False
    force: Annotated[
        bool, typer.Option("--force", help="Run even if deadlines may be missed by the measured times.")
    ] = False
    accelerator_host: Annotated[
        Path | None,
        typer.Option(
            metavar="LIB.so", help="Library of `mavcg accel host --library`, which runs programs on a simulated device."
        ),
    ] = None
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the beginning of the run, as .svg or .png.")
    ] = None
    as_json: JsonEverything = False


def run_serve(options: AppServeOptions) -> None:
    """Run the networks of an application as periodic jobs, and count the deadlines that are kept.

    Periods, deadlines and priorities are those of the app.toml that the library was built from. First the networks are
    timed on this machine; if a deadline may be missed by these times, nothing runs, and the networks are named. Inputs
    are random. Segments of programs occupy their accelerator for their simulated cycles; the clock stands still while
    the device is simulated.

    \b
    mavcg app build app.toml --board host -o libapp.so
    mavcg app serve libapp.so --seconds 60
    mavcg app serve libapp.so --threads 2 --realtime --plot run.svg --json
    """
    from mavcg.apps.service.gantt import draw_gantt
    from mavcg.apps.service.measured import (
        CPU,
        counted_jobs,
        measure_times,
        measured_tasks,
        served_json,
        served_schedule,
    )
    from mavcg.apps.service.periods_note import library_periods
    from mavcg.apps.service.program_entry import library_programs
    from mavcg.apps.service.served_programs import (
        beyond_parts,
        measured_parts_json,
        opened_programs,
        part_times,
        program_tasks,
        timed_programs,
    )
    from mavcg.apps.service.service_report import service_json, show_schedule, show_service
    from mavcg.drawing.svg_plots import check_plot
    from mavcg.runtime.application import load_application
    from mavcg.runtime.random_inputs import random_inputs
    from mavcg.runtime.service import PeriodicNetwork, use_realtime

    if options.plot is not None:
        check_plot(options.plot)
    if not 0 <= options.margin <= 1000:
        raise MavcgError(f"--margin {options.margin:g}: is not a percentage from 0 to 1000")
    if not 0.1 <= options.measure_seconds <= 600:
        raise MavcgError(f"--measure-seconds {options.measure_seconds:g}: is not a time from 0.1 to 600 seconds")
    periods, programs = library_periods(options.library), library_programs(options.library)
    every = [*periods.values(), *(own.periodic for own in programs)]
    jobs = sum(options.seconds * 1e9 / own.period_ns for own in every)
    if not 0 < jobs <= _MOST_JOBS:
        raise MavcgError(
            f"--seconds {options.seconds:g}: {jobs:.0f} jobs are released in them; give a time from above 0 in which "
            f"at most {_MOST_JOBS} are"
        )
    margin = options.margin / 100
    with (
        load_application(options.library, threads=options.threads) as application,
        opened_programs(programs, options.accelerator_host, options.threads) as accelerated,
        Progress() as progress,
    ):
        if options.realtime and not use_realtime():
            raise MavcgError(
                "--realtime: the system refuses SCHED_FIFO; run as root or with CAP_SYS_NICE, or leave it out"
            )
        progress("timing the networks")
        priorities = {name: own.priority for name, own in periods.items()}
        timed = timed_programs(application, accelerated, options.measure_seconds)
        times = measure_times(application, priorities, options.measure_seconds, timed)
        parts, notice = part_times(timed, options.measure_seconds), max(own.notice_ns for own in times.values())
        tasks = measured_tasks(periods, times, margin)
        all_tasks = (*tasks, *program_tasks(programs, parts, notice, margin, CPU))
        service = service_json(all_tasks, "measured", margin)
        if not service["holds"] and not options.force:
            if not options.as_json:
                show_service(service, console())
            raise MavcgError(
                f"{options.library}: {', '.join(service['may_miss'])} may miss deadlines by the measured times, and "
                "nothing was run: give longer periods or deadlines, other priorities, more --threads, or --force"
            )
        progress(f"serving for {options.seconds:g} s")
        served = application.serve(
            [
                PeriodicNetwork(
                    name,
                    own.period_ns,
                    own.deadline_ns,
                    own.priority,
                    own.preemptible,
                    random_inputs(application[name], 0),
                )
                for name, own in periods.items()
            ],
            options.seconds,
            accelerated,
        )
        longest = {own.jobs.name: own.program.take_part_ns() for own in accelerated}
    rows = served_json(tasks, served, times)
    for task in all_tasks[len(tasks) :]:
        beyond = beyond_parts(task, longest[task.name])
        measured = measured_parts_json(parts[task.name], notice)
        rows.append({**counted_jobs(task, served), "beyond_times": beyond, "measured": measured})
    if options.plot is not None:
        own = [job for job in served if job.network in periods]
        draw_gantt(tasks, served_schedule(periods, own), f"{options.library.name}, measured", options.plot)
        note(f"wrote the schedule to {options.plot}")
    kept = sum(row["kept"] for row in rows)
    if options.as_json:
        print_json(
            {
                "seconds": options.seconds,
                "threads": options.threads,
                "deadlines": len(served),
                "kept": kept,
                "service": service,
                "served": rows,
            }
        )
        return
    show_service(service, console())
    show_schedule(rows, options.seconds, console(), "measured")
    console().print(f"{kept:,} of {len(served):,} deadlines kept")
    if longer := [row["name"] for row in rows if row["beyond_times"]]:
        console().print(f"jobs of {', '.join(longer)} took longer than was measured before, with the margin: raise it")


serve = command_of("serve", AppServeOptions, run_serve)
