"""Run the networks of an application as periodic jobs, from Python: LoadedApplication.serve."""

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mavcg.errors import MavcgError
from mavcg.runtime.accelerated import AcceleratedProgram
from mavcg.runtime.declared import ffi
from mavcg.runtime.library_tables import check_status
from mavcg.runtime.loading import Model
from mavcg.runtime.run_arrays import Array, given_outputs

_SKIPPED: int = ffi.integer_const("MAVCG_SKIPPED")
_WAIT_SECONDS = 0.1  # of the calling thread, so that a signal is heeded


@dataclass(frozen=True)
class PeriodicNetwork:
    """A network's jobs: one is released in each period.

    deadline_ns: after the release. priority: from 0; the largest runs first. preemptible: more urgent jobs run between
    two steps. inputs: arrays as for Model.run, of every job. outputs: arrays that every job writes; () for new ones.
    """

    name: str
    period_ns: int
    deadline_ns: int
    priority: int
    preemptible: bool
    inputs: Sequence[Array]
    outputs: Sequence[Array] = ()


@dataclass(frozen=True)
class AcceleratedNetwork:
    """A network's jobs whose segments an accelerator computes.

    program: as opened. accelerator: its number; networks with the same share it. jobs: its period, deadline, priority,
    inputs and outputs; its name is that of the jobs.
    """

    program: AcceleratedProgram
    accelerator: int
    jobs: PeriodicNetwork


@dataclass(frozen=True)
class ServedJob:
    """A job that ended or was skipped; times are in ns since the service began.

    begin_ns, end_ns: 0 if it was skipped. longest_section_ns: the longest time between two boundaries of steps.
    preemptions: boundaries at which other jobs ran.
    """

    network: str
    number: int
    skipped: bool
    release_ns: int
    begin_ns: int
    end_ns: int
    longest_section_ns: int
    preemptions: int


def serve_networks(
    path: Path,
    table: Any,
    application: Any,
    models: Mapping[str, Model],
    networks: Sequence[PeriodicNetwork],
    accelerated: Sequence[AcceleratedNetwork],
    ns: int,
) -> tuple[ServedJob, ...]:
    """Run the jobs of networks that are released within `ns`, and return them in the order of their ends.

    A thread of its own runs them; an exception in the caller, such as KeyboardInterrupt, stops the service. Raises:
    MavcgError as Model.run, for equal names, for networks of which one may preempt another that shares its memory, and
    with the host side's text where an accelerator stops.
    """
    names, kept = [*models, *(own.jobs.name for own in accelerated)], list[Any]()
    if equal := {name for name in names if names.count(name) > 1}:
        raise MavcgError(
            f"{path}: '{min(equal)}' is the name of two networks, of which one runs on an accelerator; give each "
            "network a name of its own"
        )
    networks = [*networks, *(own.jobs for own in accelerated)]
    rows = ffi.new("mavcg_periodic[]", len(networks))
    for row, own in zip(rows, networks, strict=True):
        inputs, outputs = _arrays_of(path, own, models, accelerated)
        pointers = [ffi.new("void *[]", [*map(ffi.from_buffer, arrays)] or 1) for arrays in (inputs, outputs)]
        kept += [inputs, outputs, pointers]
        row.network, row.priority, row.preemptible = names.index(own.name), own.priority, own.preemptible
        row.period_ns, row.deadline_ns = own.period_ns, own.deadline_ns
        row.inputs, row.outputs = pointers
    others = ffi.new("mavcg_accelerated[]", len(accelerated))
    for other, each in zip(others, accelerated, strict=True):
        each.program.fill(other, each.accelerator)
    capacity = sum(-(-ns // own.period_ns) for own in networks)
    jobs = ffi.new("mavcg_job[]", max(1, capacity))
    service = ffi.new("mavcg_service *", {"networks": rows, "count": len(networks), "duration_ns": ns})
    service.jobs, service.job_capacity = jobs, capacity
    statuses = list[int]()

    def run() -> None:
        if accelerated:  # a library of API 3 has no such function
            statuses.append(table.serve_accelerated(application, service, others, len(accelerated)))
        else:
            statuses.append(table.serve(application, service))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(_WAIT_SECONDS)
    finally:
        table.stop_service(application)
        thread.join()
    if statuses[0] == ffi.integer_const("MAVCG_ERROR_OPTION"):
        raise MavcgError(
            f"{path}: the networks cannot be served: priorities must differ, times must be above 0, and a network that "
            "may preempt another must not share its memory; build the library with these periods and priorities"
        )
    if statuses[0] == ffi.integer_const("MAVCG_ERROR_ACCELERATOR"):
        texts = [f"{own.jobs.name}: {own.program.message}" for own in accelerated if own.program.message]
        raise MavcgError(f"{path}: {'; '.join(texts)}; build its program again, or leave the network out")
    check_status(path, table.networks[0].model, statuses[0])
    return tuple(
        ServedJob(
            names[job.network],
            int(job.number),
            job.status == _SKIPPED,
            int(job.release_ns),
            int(job.begin_ns),
            int(job.end_ns),
            int(job.longest_section_ns),
            int(job.preemptions),
        )
        for job in jobs[0 : service.job_count]
    )


def _arrays_of(
    path: Path, own: PeriodicNetwork, models: Mapping[str, Model], accelerated: Sequence[AcceleratedNetwork]
) -> tuple[Sequence[Array], Sequence[Array]]:
    """Return the inputs and outputs of a network's jobs, checked."""
    if own.name in models:
        model = models[own.name]
        with model.hold_shapes(own.inputs):  # a bounded dimension keeps this length
            inputs = tuple(model.check_inputs(own.inputs))
            return inputs, given_outputs(path, model.outputs, own.outputs) if own.outputs else model.empty_outputs()
    program = next(each.program for each in accelerated if each.jobs is own)
    return program.check_inputs(own.inputs), program.check_outputs(own.outputs)


def use_realtime(thread_priority: int = 50) -> bool:
    """Let the threads that this process starts from now on run before all others (SCHED_FIFO); False if refused."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(thread_priority))
    except OSError:
        return False
    return True
