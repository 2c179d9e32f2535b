"""Memory that a network needs while it runs: live images, their conversions, and the workspace of the node at work.

Nodes run in order. An image is live from the node that writes it to the last node that reads it; its conversions are
live only while their reader runs. Every image counts with the largest layout in which it may be written (blocks of CHWc
are padded), so only the running node and the conversions before it depend on the choice.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mavcg.choose.algorithms.choice import Alternative, Problem
from mavcg.choose.algorithms.dt_graph import Size
from mavcg.specs.primitive import F32_BYTES, Layout


@dataclass(frozen=True)
class ImageRead:
    """An image that a node reads.

    links: numbers of all links that carry it to the node. dies: true if no later node reads it. copy_bytes: size of
    each layout that it is converted into.
    """

    bytes: int
    copy_bytes: int
    links: tuple[int, ...]
    dies: bool


@dataclass(frozen=True)
class ArenaStep:
    """Memory while one node runs.

    made: bytes of its own images. others: bytes of live images that it does not touch.
    """

    node: str
    made: int
    others: int
    reads: tuple[ImageRead, ...]

    def need(self, copies: Callable[[int], int], workspace: int) -> int:
        """Return the bytes needed at the node.

        copies: number of conversions, one after another, of a link's image. First all images are converted; then the
        node runs, and an image of which it reads only converted copies is freed.
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
    """Peak memory, in bytes, and the node where it occurs."""

    bytes: int
    node: str


def image_bytes(size: Size, block: int) -> int:
    """Return the bytes of an image with its channels padded to a multiple of `block`; 1: without padding."""
    return -(-size.c // block) * block * size.h * size.w * size.n * F32_BYTES


def steps_of(problem: Problem, block: int) -> tuple[ArenaStep, ...]:
    """Return the arena steps, one for each node, in order. block: channels per block of CHWc."""
    network = problem.network
    at = {name: number for number, name in enumerate(network.nodes)}
    sizes: dict[str, int] = {}
    written_at: dict[str, int] = {}
    last_read_at: dict[str, int] = {}
    copies: dict[str, int] = {}
    for link in network.links:
        copies[link.tensor] = image_bytes(link.size, block)
        blocked = any(alternative.layout_out is Layout.CHWC for alternative in problem.alternatives[link.source])
        sizes[link.tensor] = image_bytes(link.size, block if blocked else 1)
        written_at[link.tensor] = at[link.source]
        last_read_at[link.tensor] = max(last_read_at.get(link.tensor, 0), at[link.target])
    links_read: dict[str, dict[str, list[int]]] = {name: {} for name in network.nodes}
    for number, link in enumerate(network.links):
        links_read[link.target].setdefault(link.tensor, []).append(number)
    steps = []
    for name, position in at.items():
        alive = [tensor for tensor in sizes if written_at[tensor] <= position <= last_read_at[tensor]]
        reads = [
            ImageRead(sizes[t], copies[t], tuple(links), last_read_at[t] == position)
            for t, links in links_read[name].items()
        ]
        made = sum(sizes[tensor] for tensor in alive if written_at[tensor] == position)
        others = sum(sizes[t] for t in alive if written_at[t] < position and t not in links_read[name])
        steps.append(ArenaStep(name, made, others, tuple(reads)))
    return tuple(steps)


def copies_of(problem: Problem, number: int, source: Alternative, target: Alternative) -> int:
    """Return the number of conversions of a link's image; 0 if they change nothing in memory."""
    from_, to = source.layout_out, problem.layout_read(problem.network.links[number], target)
    graph = problem.graphs[number]
    if from_ is to or graph.ms(from_, to) == 0:
        return 0
    return max(1, len(graph.chain(from_, to)) - 1)


def workspace_of(problem: Problem, node: str, alternative: Alternative) -> int:
    """Return the workspace of a node, in bytes."""
    scenario = problem.network.nodes[node].scenario
    return alternative.primitive.workspace_bytes(scenario) if alternative.primitive and scenario else 0


def need_at(problem: Problem, step: ArenaStep, chosen: Mapping[str, Alternative]) -> int:
    """Return the bytes needed at a node with the chosen alternatives."""
    links = problem.network.links

    def copies(number: int) -> int:
        return copies_of(problem, number, chosen[links[number].source], chosen[step.node])

    return step.need(copies, workspace_of(problem, step.node, chosen[step.node]))


def peak(problem: Problem, chosen: Mapping[str, Alternative], block: int) -> Need:
    """Return the peak memory of a choice, and its node."""
    needs = [(need_at(problem, step, chosen), step.node) for step in steps_of(problem, block)]
    most = max(bytes_ for bytes_, _ in needs)
    return next(Need(bytes_, node) for bytes_, node in needs if bytes_ == most)
