"""Periodic tasks of an application's networks, with times predicted for a board."""

from collections import Counter
from collections.abc import Mapping

from mavcg.apps.application import Application, Partition, firings
from mavcg.apps.application_file import ApplicationFile
from mavcg.apps.derivation import LayerId
from mavcg.apps.service.periodic_keys import Periodic
from mavcg.apps.service.periodic_task import PeriodicTask, TaskStage
from mavcg.apps.throughput import NO_TIME, LayerTime

MARGIN = 0.2  # added to times that were predicted or measured, as neither is a proven worst case


def modelled_tasks(
    file: ApplicationFile, app: Application, times: Mapping[LayerId, LayerTime], margin: float = MARGIN
) -> tuple[PeriodicTask, ...]:
    """Return the networks as tasks whose sections are layers, or rows of layers by parts.

    A network in one partition runs on a core of cluster 0, the fastest; each partition of a pipeline is a stage, on a
    core of a cluster of its own in order, the last ones sharing the last cluster. margin: fraction added to all times.
    """
    clusters = max((len(time.ms) for time in times.values()), default=1) or 1
    tasks = []
    for entry in file.networks:
        if entry.periodic is None:
            continue
        stages = tuple(
            TaskStage(
                f"cluster {min(number, clusters - 1)}",
                sections_of(_layer_ns(part, times, min(number, clusters - 1)), entry.periodic, margin),
            )
            for number, part in enumerate(app.partitions_of(entry.name))
        )
        tasks.append(task_of(entry.name, entry.periodic, stages))
    return tuple(tasks)


def task_of(name: str, periodic: Periodic, stages: tuple[TaskStage, ...]) -> PeriodicTask:
    """Return a network's task."""
    return PeriodicTask(name, periodic.period_ns, periodic.deadline_ns, periodic.priority, stages)


def sections_of(times_ns: list[float], periodic: Periodic, margin: float) -> tuple[int, ...]:
    """Return the worst-case times of sections, at least 1 ns each: one section if the network is not preemptible."""
    times = times_ns if periodic.preemptible else [sum(times_ns)]
    return tuple(max(1, round(time * (1 + margin))) for time in times) or (1,)


def _layer_ns(part: Partition, times: Mapping[LayerId, LayerTime], cluster: int) -> list[float]:
    """Return the time of each firing of a partition's schedule on a cluster, in ns."""
    order = list(firings(part.schedule))
    phases, own = Counter(order), []
    for layer in order:
        time = times.get((part.cnn, layer), NO_TIME)
        own.append(time.by_phases(phases[layer], cluster) / phases[layer] * 1e6 if time.ms else 0.0)
    return own
