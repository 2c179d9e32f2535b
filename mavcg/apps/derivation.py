"""Algorithm 10.

An application with data processing by parts in chosen layers, and smallest reused buffers (section 6.5.2).
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from mavcg.apps.application import Application, Cnn, Layer, Partition, ScheduleBlock, firings
from mavcg.apps.buffers import Buffer, EdgeData, edge_data, reuse_buffers
from mavcg.apps.csdf import CsdfGraph, CsdfSchedule, run_schedule, schedule_csdf, to_csdf

LayerId = tuple[str, str]  # names of a CNN and its layer
Chromosome = frozenset[LayerId]  # the layers that process data by parts
_NO_GENES: Chromosome = frozenset()
_Scheduled = tuple[CsdfGraph, CsdfSchedule, ScheduleBlock, dict[str, int]]  # the last: phases of each layer


@dataclass(frozen=True)
class Derived:
    """An application derived from a chromosome.

    app: with schedules of phases. phases: of each layer. data: of each edge, with its smallest size. buffers: reused.
    capacities: rows of each edge's ring, by (cnn, source, target).
    """

    app: Application
    phases: Mapping[LayerId, int]
    data: tuple[EdgeData, ...]
    buffers: tuple[Buffer, ...]
    capacities: Mapping[tuple[str, str, str], int]


def phases_of(layer: Layer, by_parts: bool) -> int:
    """Return the number of phases of a layer: its output rows by parts, else 1 (equation 6.1)."""
    return layer.out_rows if by_parts and layer.by_parts else 1


def all_by_parts(app: Application) -> Chromosome:
    """Return the chromosome of the methodology in [65]: parts in every layer that allows them."""
    return frozenset(free_genes(app))


def free_genes(app: Application) -> list[LayerId]:
    """Return the layers that can process data by parts and whose schedule is not fixed, in order."""
    fixed = {(p.cnn, layer) for p in app.partitions if p.fixed for layer in p.layers}
    ids = [(cnn.name, layer.name) for cnn in app.cnns for layer in cnn.layers if layer.by_parts]
    return [gene for gene in ids if gene not in fixed]


class Derivation:
    """Algorithm 10 for many chromosomes of one application; each partition's schedule is cached by its genes."""

    def __init__(self, app: Application) -> None:
        self.app = app
        self._cache: dict[tuple[str, Chromosome], _Scheduled] = {}

    def derive(self, chromosome: Chromosome, reuse: Callable[..., tuple[Buffer, ...]] = reuse_buffers) -> Derived:
        """Derive the application of a chromosome. reuse: Algorithm 8, or a replacement."""
        app, phases, sizes, capacities = self.app, dict[LayerId, int](), {}, {}
        partitions: list[Partition] = []
        for cnn in app.cnns:
            for edge in cnn.edges:
                key = (cnn.name, edge.source, edge.target)
                sizes[key], capacities[key] = edge.elements, edge.rows
        for partition in app.partitions:
            graph, schedule, block, own = self._schedule(partition, chromosome)
            partitions.append(replace(partition, schedule=block))
            phases |= {(partition.cnn, name): count for name, count in own.items()}
            for channel, rows in zip(graph.channels, schedule.capacities, strict=True):
                key = (partition.cnn, channel.edge.source, channel.edge.target)
                sizes[key], capacities[key] = rows * channel.row_elements, rows
        derived = replace(app, partitions=tuple(partitions))
        data = edge_data(derived, sizes)
        return Derived(derived, phases, data, reuse(derived, data), capacities)

    def _schedule(self, partition: Partition, chromosome: Chromosome) -> _Scheduled:
        cnn = self.app.cnn(partition.cnn)
        genes = frozenset((cnn.name, name) for name in partition.layers) & chromosome
        key = (partition.name, _NO_GENES if partition.fixed else genes)
        if key not in self._cache:
            self._cache[key] = (
                _fixed_schedule(cnn, partition) if partition.fixed else _make_scheduled(cnn, partition, genes)
            )
        return self._cache[key]


def _fixed_schedule(cnn: Cnn, partition: Partition) -> _Scheduled:
    counts = Counter(firings(partition.schedule))
    own = {name: counts[name] for name in partition.layers}
    graph = to_csdf(cnn, partition, own)
    return graph, run_schedule(graph, firings(partition.schedule)), partition.schedule, own


def _make_scheduled(cnn: Cnn, partition: Partition, genes: Chromosome) -> _Scheduled:
    own = {name: phases_of(cnn.layer(name), (cnn.name, name) in genes) for name in partition.layers}
    graph = to_csdf(cnn, partition, own)
    if max(own.values()) == 1:  # layer by layer, in the order that the application has
        whole = CsdfSchedule(tuple(own), tuple(channel.edge.rows for channel in graph.channels))
        return graph, whole, partition.schedule, own
    schedule = schedule_csdf(graph)
    return graph, schedule, ScheduleBlock(schedule.firings), own
