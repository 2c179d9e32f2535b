"""Costs of groups in an SQLite file, by keys: groups with equal keys have equal costs, also in different networks."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

import mavcg.accelerators
from mavcg.accelerators.concats import placements
from mavcg.accelerators.fusion.costs import GroupCost, GroupCosts
from mavcg.accelerators.fusion.group_shape import GraphFacts, group_shape
from mavcg.accelerators.groups import ORDERS, GroupTile
from mavcg.accelerators.target import IsaTarget
from mavcg.accelerators.xgraph import XGraph
from mavcg.errors import MavcgError
from mavcg.files.database import Database, DatabaseKind
from mavcg.files.decode import json_document
from mavcg.text.source_digest import digest_of_code

_TEXTS = ("name", "description", "sources", "dense", "rounding", "frequency_mhz")  # without effect on cycles
KIND = DatabaseKind(
    title="a file of groups' costs",
    application_id=0x6D617667,
    version=0,
    tables=(
        "CREATE TABLE IF NOT EXISTS group_costs (key TEXT NOT NULL, provider TEXT NOT NULL, cycles REAL, "
        "tile TEXT NOT NULL, PRIMARY KEY (key, provider))",
    ),
    another="name another file of groups' costs",
)


@dataclass
class GroupKeys:
    """Keys of groups, with a cache of the last graph's facts."""

    _facts: GraphFacts | None = None
    _parts: dict[str, tuple[bool, int]] = field(default_factory=dict)

    def key(self, graph: XGraph, nodes: Sequence[str]) -> tuple[object, ...]:
        """Return the key of a group: all that its code depends on except values. nodes: in the graph's order."""
        if self._facts is None or self._facts.graph is not graph:
            self._facts = GraphFacts(graph)
            places = placements(graph)
            self._parts = {n.name: (places[n.name].root != n.name, places[n.name].stride) for n in graph.nodes}
        shape = group_shape(self._facts, nodes)
        # Inputs of a concat are transferred pixel by pixel; row strides decide how tiles are spread over the banks.
        tensors = [self._parts[node.name] for node in (*shape.inputs, *shape.nodes)]
        copied = [self._facts.copied_parts.get(node.name) for node in shape.nodes]
        return shape.key, tuple(tensors), tuple(copied)


def key_digest(key: tuple[object, ...], target: IsaTarget) -> str:
    """Return a key as text for files: a digest of the group, the target's figures and the version of the compiler."""
    figures = {name: value for name, value in asdict(target).items() if name not in _TEXTS}
    return hashlib.sha256(repr((key, sorted(figures.items()), compiler_version())).encode()).hexdigest()[:32]


@cache
def compiler_version() -> str:
    """Return a digest of the code that generates a group's code and simulates its cycles."""
    folder = Path(mavcg.accelerators.__file__).parent
    parts = ("codegen", "isa", "simulator")
    return digest_of_code(
        [*folder.glob("*.py"), *(file for part in parts for file in (folder / part).glob("*.py"))], folder
    )[:12]


class GroupCostFile(Database):
    """An SQLite file of costs, which several processes may use at the same time; a context manager."""

    def __init__(self, path: Path) -> None:
        """Open the file, which is created if missing. Raises: MavcgError as Database."""
        super().__init__(path, KIND)

    def get(self, key: str, provider: str) -> tuple[GroupCost | None] | None:
        """Return the cost with a key by a provider, in a tuple; None if the file does not have it.

        The tuple is (None,) for a group that cannot run.
        """
        with self.errors():
            rows = self.rows("SELECT cycles, tile FROM group_costs WHERE key = ? AND provider = ?", (key, provider))
            if not rows:
                return None
            ((cycles, tile),) = rows
            return (None,) if cycles is None else (GroupCost(float(cycles), self._tile(tile)),)

    def put(self, provider: str, costs: Sequence[tuple[str, GroupCost | None]]) -> None:
        """Store costs by key; None for a group that cannot run."""
        rows = [
            (key, provider, None, "") if cost is None else (key, provider, cost.cost, json.dumps(asdict(cost.tile)))
            for key, cost in costs
        ]
        with self.transaction() as connection:
            connection.executemany("INSERT OR REPLACE INTO group_costs VALUES (?, ?, ?, ?)", rows)

    def _tile(self, text: str) -> GroupTile:
        document = json_document(text, f"{self.path}: a tile", "delete the file")
        tile = document.decode(GroupTile)
        if min(tile.rows, tile.columns, tile.out_ch, tile.in_ch) < 1 or tile.order not in ORDERS:
            raise MavcgError(f"{self.path}: {text[:60]!r} is not a tile; delete the file")
        return tile


@dataclass
class KeptGroupCosts:
    """A provider that reads costs from a file, and computes missing ones by another provider.

    inner: the other provider. name: its name in the file; for a device, with the driver's name. computed: number of
    groups that the file did not have.
    """

    inner: GroupCosts
    name: str
    target: IsaTarget
    file: GroupCostFile
    computed: int = 0
    _known: dict[str, GroupCost | None] = field(default_factory=dict)
    _keys: GroupKeys = field(default_factory=GroupKeys)

    def prepare(self, graph: XGraph, groups: Sequence[Sequence[str]], progress: Callable[[str], None]) -> None:
        """Read the costs of these groups from the file; compute and store those that it does not have."""
        lacking: dict[str, Sequence[str]] = {}
        for nodes in groups:
            key = self._key(graph, nodes)
            if key in self._known:
                continue
            kept = self.file.get(key, self.name)
            if kept is None:
                lacking.setdefault(key, nodes)
            else:
                (self._known[key],) = kept
        if lacking:
            self.inner.prepare(graph, list(lacking.values()), progress)
            self._find(graph, lacking)

    def cost(self, graph: XGraph, nodes: Sequence[str]) -> GroupCost | None:
        """Return the stored cost, or the inner provider's; None for a group that cannot run."""
        key = self._key(graph, nodes)
        if key not in self._known:
            kept = self.file.get(key, self.name)
            if kept is None:
                self._find(graph, {key: nodes})
            else:
                (self._known[key],) = kept
        return self._known[key]

    def _find(self, graph: XGraph, groups: dict[str, Sequence[str]]) -> None:
        priced = [(key, self.inner.cost(graph, nodes)) for key, nodes in groups.items()]
        self.computed += len(priced)
        self.file.put(self.name, priced)
        self._known.update(priced)

    def _key(self, graph: XGraph, nodes: Sequence[str]) -> str:
        return key_digest(self._keys.key(graph, nodes), self.target)
