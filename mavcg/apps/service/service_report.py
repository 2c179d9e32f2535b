"""Reports of an application as a service: bounds of response times, and who cannot hold."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mavcg.apps.service.periodic_task import PeriodicTask, utilisation
from mavcg.apps.service.response_times import ResponseBound, feasible_priorities, response_bounds
from mavcg.apps.service.simulator import SimulatedSchedule

if TYPE_CHECKING:
    from rich.console import Console


def failing(bounds: Sequence[ResponseBound]) -> tuple[str, ...]:
    """Return the names of the networks whose deadlines may be missed."""
    return tuple(bound.task.name for bound in bounds if not bound.holds)


def service_json(tasks: Sequence[PeriodicTask], source: str, margin: float) -> dict[str, Any]:
    """Return `service` of a document: the bounds of tasks whose times are modelled or measured (source).

    margin: fraction that was added to the times. feasible_order: if a deadline may be missed, an order of priorities
    in which all hold, the most urgent first, or None if there is none.
    """
    bounds = response_bounds(tasks)
    late = failing(bounds)
    return {
        "times": source,
        "margin": margin,
        "holds": not late,
        "may_miss": list(late),
        "feasible_order": feasible_priorities(tasks) if late else None,
        "utilisation": {name: round(own, 5) for name, own in utilisation(tuple(tasks)).items()},
        "networks": [
            {
                "name": bound.task.name,
                "period_ms": bound.task.period_ns / 1e6,
                "deadline_ms": bound.task.deadline_ns / 1e6,
                "priority": bound.task.priority,
                "processors": [stage.processor for stage in bound.task.stages],
                "worst_ms": bound.task.total_ns / 1e6,
                "longest_section_ms": max(max(stage.sections) for stage in bound.task.stages) / 1e6,
                "blocking_ms": bound.blocking_ns / 1e6,
                "bound_ms": None if bound.bound_ns is None else bound.bound_ns / 1e6,
                "holds": bound.holds,
            }
            for bound in bounds
        ],
    }


def schedule_json(tasks: Sequence[PeriodicTask], schedule: SimulatedSchedule) -> list[dict[str, Any]]:
    """Return the simulated jobs of each task: how many, how many ended late or were skipped, the worst response."""
    rows = []
    for task in tasks:
        jobs = [job for job in schedule.jobs if job.task == task.name]
        rows.append(
            {
                "name": task.name,
                "jobs": len(jobs),
                "kept": sum(job.kept for job in jobs),
                "late": sum(not job.kept and job.end_ns is not None for job in jobs),
                "skipped": sum(job.end_ns is None for job in jobs),
                "worst_response_ms": schedule.worst_ns(task.name) / 1e6,
            }
        )
    return rows


def show_service(service: dict[str, Any], to: "Console") -> None:
    """Print the bounds of service_json, and the networks that may miss their deadlines."""
    from rich.table import Table

    added = f", {100 * service['margin']:g} % added" if service["margin"] else ""
    to.print(f"\nas a service, worst-case times {service['times']}{added}:")
    table = Table("network", box=None, pad_edge=False)
    for name in ("priority", "period", "deadline", "worst ms", "blocked ms", "responds within", ""):
        table.add_column(name, justify="right" if name else "left")
    for row in sorted(service["networks"], key=lambda each: -each["priority"]):
        bound = "no bound" if row["bound_ms"] is None else f"{row['bound_ms']:.3f}"
        table.add_row(
            row["name"],
            str(row["priority"]),
            f"{row['period_ms']:g}",
            f"{row['deadline_ms']:g}",
            f"{row['worst_ms']:.3f}",
            f"{row['blocking_ms']:.3f}",
            bound,
            "" if row["holds"] else "may miss its deadline",
        )
    to.print(table)
    busy = ", ".join(f"{name} {100 * own:.1f} %" for name, own in service["utilisation"].items())
    to.print(f"busy in the worst case: {busy}")
    if not service["holds"]:
        order = service["feasible_order"]
        remedy = "no order of priorities keeps them all" if order is None else f"all hold as {' > '.join(order)}"
        to.print(f"may miss their deadlines: {', '.join(service['may_miss'])}; {remedy}")


def show_schedule(rows: Sequence[dict[str, Any]], seconds: float, to: "Console", how: str = "simulated") -> None:
    """Print the rows of schedule_json, or of served_json. seconds: simulated, or measured."""
    from rich.table import Table

    to.print(f"\n{how}, {seconds:g} s:")
    table = Table("network", box=None, pad_edge=False)
    for name in ("jobs", "kept", "late", "skipped", "worst response ms"):
        table.add_column(name, justify="right")
    for row in rows:
        counts = (str(row[key]) for key in ("jobs", "kept", "late", "skipped"))
        table.add_row(row["name"], *counts, f"{row['worst_response_ms']:.3f}")
    to.print(table)
