"""Deadlines that an application's networks keep as periodic jobs on this machine.

python -m bench.apps.served_deadlines [--library FILE] [--seconds S]

A face detector, face landmarks and MobileNet v2 share a processor, with the right to run before other programs. They
are timed, admitted by the bounds of these times and 20 %, and served. Needs a quiet machine, and the right to
SCHED_FIFO.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.models import model_path
from bench.record import facts, write
from bench.rows import ROWS
from mavcg.apps.application_file import read_application_file
from mavcg.apps.library import build_application
from mavcg.apps.service.measured import measure_times, measured_tasks, served_json
from mavcg.apps.service.modelled import MARGIN
from mavcg.apps.service.periods_note import library_periods
from mavcg.apps.service.service_report import service_json
from mavcg.errors import MavcgError
from mavcg.model.request import ModelOptions, make_model_request
from mavcg.runtime.application import load_application
from mavcg.runtime.random_inputs import random_inputs
from mavcg.runtime.service import PeriodicNetwork, use_realtime
from mavcg.text.terminal import say

# Period, deadline in ms, and priority: 287 jobs a second.
NETWORKS = {"blazeface": (7, 4, 3), "face_landmark": (9, 6, 2), "mobilenet_v2": (30, 30, 1)}
SECONDS, MEASURED_SECONDS = 38.0, 4.0


def build(library: Path) -> None:
    """Build the library of the networks."""
    library.parent.mkdir(parents=True, exist_ok=True)
    file = library.parent / "served.toml"
    file.write_text(
        "".join(
            f'[[network]]\nname = "{name}"\nfile = "{model_path(name)}"\n'
            f"period_ms = {period}\ndeadline_ms = {deadline}\npriority = {priority}\n"
            for name, (period, deadline, priority) in NETWORKS.items()
        )
    )
    request, _ = make_model_request(file, str(library), ModelOptions(board="host"))
    build_application(read_application_file(file), request)


def served(library: Path, seconds: float) -> dict[str, Any]:
    """Time the networks and serve them; returns their bounds and what was kept.

    Raises: MavcgError, before anything is served, for networks that may miss their deadlines.
    """
    periods = library_periods(library)
    if not use_realtime():
        raise MavcgError("bench.apps.served_deadlines: the system refuses SCHED_FIFO; run it as root")
    with load_application(library) as application:
        times = measure_times(application, {name: own.priority for name, own in periods.items()}, MEASURED_SECONDS)
        tasks = measured_tasks(periods, times, MARGIN)
        service = service_json(tasks, "measured", MARGIN)
        if not service["holds"]:
            raise MavcgError(f"{', '.join(service['may_miss'])} may miss deadlines: {json.dumps(service['networks'])}")
        inputs = {name: random_inputs(application[name], 0) for name in periods}
        networks = [
            PeriodicNetwork(name, own.period_ns, own.deadline_ns, own.priority, own.preemptible, inputs[name])
            for name, own in periods.items()
        ]
        jobs = application.serve(networks, seconds)
    return {"service": service, "rows": served_json(tasks, jobs, times)}


def main(words: Sequence[str] | None = None) -> None:
    """Build the library if it is not there, serve it, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = ROWS / "libserved.so"
    parser.add_argument("--library", type=Path, default=default, help="built if it is not there; kept")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="time to serve; another writes no record")
    parser.add_argument("--build", action="store_true", help="build the library, and serve nothing")
    options = parser.parse_args(words)
    if options.build or not options.library.exists():
        build(options.library)
    if options.build:
        return
    result = served(options.library, options.seconds)
    for row in result["rows"]:
        worst = row["worst_response_ms"]
        say(f"{row['name']}: {row['kept']} of {row['jobs']} deadlines kept; worst response {worst} ms")
    if options.seconds == SECONDS:
        say(f"the record is {write('served_deadlines', facts('measured', 'bench.apps.served_deadlines') | result)}")


if __name__ == "__main__":
    main()
