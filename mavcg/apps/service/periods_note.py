"""Periods of an application's library, as its note records them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mavcg.apps.service.periodic_keys import MOST_MS, MOST_PRIORITY, Periodic
from mavcg.errors import MavcgError
from mavcg.objects.inspection import application_of, note_errors


def periodic_json(periodic: Periodic) -> dict[str, Any]:
    """Return a network's period as the library's note and the documents have it; times in ms."""
    return {
        "period_ms": periodic.period_ns / 1e6,
        "deadline_ms": periodic.deadline_ns / 1e6,
        "priority": periodic.priority,
        "preemptible": periodic.preemptible,
    }


def periodic_of_json(own: Mapping[str, Any]) -> Periodic:
    """Return the period of periodic_json. Raises: ValueError for values that no app.toml may have."""
    period_ns, deadline_ns = (round(float(own[key]) * 1e6) for key in ("period_ms", "deadline_ms"))
    priority = int(own["priority"])
    if not (1 <= period_ns <= MOST_MS * 1e6 and 1 <= deadline_ns <= MOST_MS * 1e6 and 0 <= priority <= MOST_PRIORITY):
        raise ValueError(f"a period of {period_ns} ns, a deadline of {deadline_ns} ns and the priority {priority}")
    return Periodic(period_ns, deadline_ns, priority, bool(own["preemptible"]))


def library_periods(library: Path) -> dict[str, Periodic]:
    """Return the periods of a library's networks, by name. Raises: MavcgError for a library without them."""
    with note_errors(library):  # a note may have any keys and values
        described = application_of(library)
        networks = [] if described is None else described["networks"]
        if networks and all("periodic" in network for network in networks):
            return {str(network["model"]): periodic_of_json(network["periodic"]) for network in networks}
    raise MavcgError(
        f"{library}: has no networks with periods; give each [[network]] of app.toml period_ms, and build it by mavcg "
        "app build"
    )
