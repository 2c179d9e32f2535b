"""An application as values: CNNs, partitions, parallel sets and schedules (section 6.4 of the paper)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from mavcg.errors import MavcgError

# Kinds of layers whose output rows need only some input rows; all others read their whole input.
BY_PARTS = frozenset(("conv", "depthwise", "pool", "add", "activation", "concat", "pad", "output"))


@dataclass(frozen=True)
class RowWindow:
    """Input rows of an output row: `rows` rows from row * stride - pad on."""

    rows: int = 1
    stride: int = 1
    pad: int = 0


@dataclass(frozen=True)
class Layer:
    """A layer of a CNN.

    out_rows: rows of its output, which bound its phases. window: input rows of an output row. weights: number of
    parameters.
    """

    name: str
    kind: str = "conv"
    out_rows: int = 1
    window: RowWindow = RowWindow()
    weights: int = 0

    @property
    def by_parts(self) -> bool:
        """True if the layer can compute its output row by row (thesis, chapter 4.

        Convolutions and poolings by their windows).
        """
        return self.kind in BY_PARTS and self.out_rows > 1


@dataclass(frozen=True)
class DataEdge:
    """Data that layer `source` writes and layer `target` reads: `elements` in `rows` rows.

    window: rows of this data that an output row of the target needs; None: the target's own (a residual has another
    one).
    """

    source: str
    target: str
    elements: int
    rows: int = 1
    window: RowWindow | None = None


@dataclass(frozen=True)
class Cnn:
    """A directed acyclic graph of layers, listed in a valid execution order."""

    name: str
    layers: tuple[Layer, ...]
    edges: tuple[DataEdge, ...]

    def layer(self, name: str) -> Layer:
        """Return a layer by its name."""
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> Mapping[str, Layer]:
        return {layer.name: layer for layer in self.layers}


@dataclass(frozen=True)
class ScheduleBlock:
    """Repeated firings, [a, b, c] x times. Entries are names of layers or further blocks."""

    entries: tuple["str | ScheduleBlock", ...]
    times: int = 1

    def __str__(self) -> str:
        inside = ", ".join(str(entry) for entry in self.entries)
        return f"[{inside}] x {self.times}" if self.times > 1 else inside


@dataclass(frozen=True)
class Partition:
    """Layers of one CNN that run one after the other in one thread of control, by a schedule.

    fixed: the schedule is the user's: a layer has as many phases as it has firings in it, and no search changes it.
    """

    name: str
    cnn: str
    layers: tuple[str, ...]
    schedule: ScheduleBlock
    fixed: bool = False


@dataclass(frozen=True)
class Application:
    """The application of the paper without its buffers B, which are computed.

    cnns, partitions: in order; the partitions of a CNN run in this order, one after the other unless they are parallel.
    parallel (J): sets of partitions that run at the same time.
    """

    cnns: tuple[Cnn, ...]
    partitions: tuple[Partition, ...]
    parallel: tuple[frozenset[str], ...] = ()
    _pairs: frozenset[tuple[str, str]] = field(init=False, repr=False, default=frozenset())

    def __post_init__(self) -> None:
        check_application(self)
        object.__setattr__(self, "_pairs", frozenset(_parallel_pairs(self)))

    def runs_with(self, a: str, b: str) -> bool:
        """True if two partitions run at the same time."""
        return (a, b) in self._pairs

    def cnn(self, name: str) -> Cnn:
        """Return a CNN by name."""
        return self._cnn_by_name[name]

    def partition_of(self, cnn: str, layer: str) -> Partition:
        """Return the partition that runs a layer."""
        return self._partition_by_layer[(cnn, layer)]

    def partitions_of(self, cnn: str) -> tuple[Partition, ...]:
        """Return a CNN's partitions, in order."""
        return tuple(p for p in self.partitions if p.cnn == cnn)

    @cached_property
    def _cnn_by_name(self) -> Mapping[str, Cnn]:
        return {cnn.name: cnn for cnn in self.cnns}

    @cached_property
    def _partition_by_layer(self) -> Mapping[tuple[str, str], Partition]:
        return {(p.cnn, layer): p for p in self.partitions for layer in p.layers}


def _parallel_pairs(app: Application) -> Iterator[tuple[str, str]]:
    """Yield the pairs of partitions that may run at the same time.

    If partitions of two CNNs are in one set, all partitions of these CNNs are parallel, because nothing synchronises
    them.
    """
    cnn_of = {p.name: p.cnn for p in app.partitions}
    for group in app.parallel:
        for a in group:
            for b in group:
                if cnn_of[a] == cnn_of[b]:
                    yield from [(a, b)] if a != b else []
                else:
                    yield from (
                        (p.name, q.name) for p in app.partitions_of(cnn_of[a]) for q in app.partitions_of(cnn_of[b])
                    )


def firings(schedule: ScheduleBlock) -> Iterator[str]:
    """Yield the layer of each firing of a schedule, in order."""
    for _ in range(schedule.times):
        for entry in schedule.entries:
            if isinstance(entry, ScheduleBlock):
                yield from firings(entry)
            else:
                yield entry


def in_order(layers: Sequence[str]) -> ScheduleBlock:
    """Return the schedule that runs each layer once."""
    return ScheduleBlock(tuple(layers))


def sequential(cnn: Cnn) -> Partition:
    """Return the single partition of a CNN that runs layer by layer."""
    names = tuple(layer.name for layer in cnn.layers)
    return Partition(cnn.name, cnn.name, names, in_order(names))


def whole_phases(app: Application) -> Mapping[tuple[str, str], int]:
    """Return one phase for each layer: nothing is processed by parts."""
    return {(cnn.name, layer.name): 1 for cnn in app.cnns for layer in cnn.layers}


def check_application(app: Application) -> None:
    """Raise MavcgError for names that are unknown or there twice, edges against the order, uncovered layers."""
    _unique("network", [cnn.name for cnn in app.cnns])
    _unique("partition", [p.name for p in app.partitions])
    for cnn in app.cnns:
        _unique(f"{cnn.name}: layer", [layer.name for layer in cnn.layers])
        order = {layer.name: number for number, layer in enumerate(cnn.layers)}
        for edge in cnn.edges:
            if edge.source not in order or edge.target not in order:
                raise MavcgError(f"{cnn.name}: edge {edge.source} -> {edge.target}: names an unknown layer; correct it")
            if order[edge.source] >= order[edge.target]:
                raise MavcgError(f"{cnn.name}: edge {edge.source} -> {edge.target}: goes back; list layers in order")
            if edge.elements < 1 or edge.rows < 1 or edge.elements % edge.rows:
                raise MavcgError(
                    f"{cnn.name}: edge {edge.source} -> {edge.target}: {edge.elements} elements in {edge.rows} rows; "
                    "give whole rows of the same length"
                )
        covered = [layer for p in app.partitions_of(cnn.name) for layer in p.layers]
        if sorted(covered) != sorted(order):
            missing = sorted(set(order) ^ set(covered)) or covered
            raise MavcgError(f"{cnn.name}: layer {missing[0]} must be in exactly one partition; correct the partitions")
        stage = {layer: n for n, p in enumerate(app.partitions_of(cnn.name)) for layer in p.layers}
        for edge in cnn.edges:
            if stage[edge.source] > stage[edge.target]:
                raise MavcgError(
                    f"{cnn.name}: edge {edge.source} -> {edge.target}: its partition runs after its reader's; "
                    "list partitions in the order of the data"
                )
    names = {p.name for p in app.partitions}
    for group in app.parallel:
        for name in sorted(group - names):
            raise MavcgError(f"parallel: '{name}' is not a partition; choose one of {', '.join(sorted(names))}")
    for p in app.partitions:
        if p.cnn not in {cnn.name for cnn in app.cnns} or set(firings(p.schedule)) != set(p.layers):
            raise MavcgError(f"partition {p.name}: its schedule and its layers differ; name each layer in both")


def _unique(kind: str, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise MavcgError(f"{kind} '{name}' appears twice; give each a different name")
