"""Periodic tasks of an application's networks, with times predicted for a board."""

from collections import Counter
from collections.abc import Mapping, Sequence

from mavcg.apps.application import Application, Partition, firings
from mavcg.apps.application_file import ApplicationFile
from mavcg.apps.derivation import LayerId
from mavcg.apps.service.periodic_keys import AcceleratorStage, Periodic
from mavcg.apps.service.periodic_task import PeriodicTask, TaskStage
from mavcg.apps.throughput import NO_TIME, LayerTime
from mavcg.errors import MavcgError

FASTEST = "cluster 0"  # processor of networks in one partition
MARGIN = 0.2  # added to times that were predicted or measured, as neither is a proven worst case


def modelled_tasks(
    file: ApplicationFile, app: Application, times: Mapping[LayerId, LayerTime], margin: float = MARGIN
) -> tuple[PeriodicTask, ...]:
    """Return the networks as tasks whose sections are layers, or rows of layers by parts.

    A network in one partition runs on a core of cluster 0, the fastest; each partition of a pipeline is a stage, on the
    processor that `stages` in app.toml names, or on a core of a cluster of its own in order, the last ones sharing the
    last cluster. An accelerator computes a stage as one section, of the given time. margin: fraction added to all
    predicted times. Raises: MavcgError for stages that are not the partitions', or on clusters that are not there.
    """
    clusters = max((len(time.ms) for time in times.values()), default=1) or 1
    tasks = []
    for entry in file.networks:
        if entry.periodic is None:
            continue
        parts, stages = app.partitions_of(entry.name), list[TaskStage]()
        processors = entry.stages or tuple(min(number, clusters - 1) for number in range(len(parts)))
        _check_processors(f"{file.path}: line {entry.line}: network '{entry.name}'", processors, len(parts), clusters)
        for part, processor in zip(parts, processors, strict=True):
            if isinstance(processor, AcceleratorStage):
                stages.append(TaskStage(processor.accelerator, (max(1, round(processor.ms * 1e6)),)))
            else:
                own = sections_of(_layer_ns(part, times, processor), entry.periodic, margin)
                stages.append(TaskStage(f"cluster {processor}", own))
        tasks.append(task_of(entry.name, entry.periodic, tuple(stages)))
    return tuple(tasks)


def _check_processors(
    location: str, processors: Sequence[int | AcceleratorStage], partitions: int, clusters: int
) -> None:
    if len(processors) != partitions:
        raise MavcgError(f"{location}: stages: {len(processors)} of {partitions} partitions; give one for each")
    for processor in processors:
        if isinstance(processor, int) and processor >= clusters:
            raise MavcgError(
                f"{location}: stages: the board has no cluster {processor}; the fastest is cluster 0, the last one "
                f"cluster {clusters - 1}"
            )


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
