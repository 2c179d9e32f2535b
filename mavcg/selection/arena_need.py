"""Memory that a network needs while it runs: live images, conversions and workspace beside them.

Nodes run in their order. An image is alive from the node that makes it to the last one that reads it; what it is
converted into, while its reader works. Every image counts as in the largest layout that it may be written in (blocks
of CHWc are filled up), so that only the node at work and the conversions before it depend on the choice.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mavcg.selection.choice import Alternative, Problem
from mavcg.selection.dt_graph import Size
from mavcg.specs.primitive import F32_BYTES, Layout


@dataclass(frozen=True)
class Read:
    """An image that a node reads. links: by number, all that carry it there; dies: nobody reads it later.

    copy_bytes: of what it is converted into.
    """

    bytes: int
    copy_bytes: int
    links: tuple[int, ...]
    dies: bool


@dataclass(frozen=True)
class ArenaStep:
    """A node at work. made: bytes of its own images; others: of those that it neither reads nor makes."""

    node: str
    made: int
    others: int
    reads: tuple[Read, ...]

    def need(self, copies: Callable[[int], int], workspace: int) -> int:
        """Return the bytes at a node where a link's image is copied so many times, one after another, and the node
        needs a workspace.

        First everything is converted; then the node works, and an image of which it reads nothing but copies is gone.
        """
        converting = working = self.others
        working += self.made + workspace
        for read in self.reads:
            counts = [copies(link) for link in read.links]
            converting += read.bytes + read.copy_bytes * sum(min(count, 2) for count in counts)
            working += read.copy_bytes * sum(count > 0 for count in counts)
            working += 0 if read.dies and all(counts) else read.bytes
        return max(converting, working)


@dataclass(frozen=True)
class Need:
    """Bytes at the node that takes most."""

    bytes: int
    node: str


def image_bytes(size: Size, block: int) -> int:
    """Return the bytes of an image in its largest layout, in blocks of so many channels; 1: in any other layout."""
    return -(-size.c // block) * block * size.h * size.w * size.n * F32_BYTES


def steps_of(problem: Problem, block: int) -> tuple[ArenaStep, ...]:
    """Return the arena steps, one for each node, in their order. block: channels of a block of CHWc."""
    network = problem.network
    at = {name: number for number, name in enumerate(network.nodes)}
    sizes: dict[str, int] = {}
    since: dict[str, int] = {}
    until: dict[str, int] = {}
    copies: dict[str, int] = {}
    for link in network.links:
        copies[link.tensor] = image_bytes(link.size, block)
        blocked = any(alternative.layout_out is Layout.CHWC for alternative in problem.alternatives[link.source])
        sizes[link.tensor] = image_bytes(link.size, block if blocked else 1)
        since[link.tensor] = at[link.source]
        until[link.tensor] = max(until.get(link.tensor, 0), at[link.target])
    carried: dict[str, dict[str, list[int]]] = {name: {} for name in network.nodes}
    for number, link in enumerate(network.links):
        carried[link.target].setdefault(link.tensor, []).append(number)
    found = []
    for name, now in at.items():
        alive = [tensor for tensor in sizes if since[tensor] <= now <= until[tensor]]
        reads = [Read(sizes[t], copies[t], tuple(links), until[t] == now) for t, links in carried[name].items()]
        made = sum(sizes[tensor] for tensor in alive if since[tensor] == now)
        others = sum(sizes[t] for t in alive if since[t] < now and t not in carried[name])
        found.append(ArenaStep(name, made, others, tuple(reads)))
    return tuple(found)


def copies_of(problem: Problem, number: int, source: Alternative, target: Alternative) -> int:
    """Return how many conversions a link's image goes through; 0 also if they change nothing in memory."""
    from_, to = source.layout_out, problem.layout_read(problem.network.links[number], target)
    graph = problem.graphs[number]
    if from_ is to or graph.ms(from_, to) == 0:
        return 0
    return max(1, len(graph.chain(from_, to)) - 1)


def workspace_of(problem: Problem, node: str, alternative: Alternative) -> int:
    """Return a node's workspace, in bytes."""
    scenario = problem.network.nodes[node].scenario
    return alternative.primitive.workspace_bytes(scenario) if alternative.primitive and scenario else 0


def need_at(problem: Problem, step: ArenaStep, chosen: Mapping[str, Alternative]) -> int:
    """Return the bytes at a node, with these alternatives."""
    links = problem.network.links

    def copies(number: int) -> int:
        return copies_of(problem, number, chosen[links[number].source], chosen[step.node])

    return step.need(copies, workspace_of(problem, step.node, chosen[step.node]))


def peak(problem: Problem, chosen: Mapping[str, Alternative], block: int) -> Need:
    """Return the greatest need of memory of a choice, with its node."""
    found = [(need_at(problem, step, chosen), step.node) for step in steps_of(problem, block)]
    most = max(bytes_ for bytes_, _ in found)
    return next(Need(bytes_, node) for bytes_, node in found if bytes_ == most)
