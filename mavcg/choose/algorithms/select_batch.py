"""Division of a batch of images among threads: all threads on one image, several images at once, or several per call.

With few threads, one image per thread needs no synchronisation between steps and reads weights once per image; all
threads on one image need the least memory and give the first result soonest. Which is faster depends on how well a
network's layers divide, and on how threads share caches and bandwidth. A library that computes several images per call
may read weights once for all of them. The CGO 2018 paper names batches as further work.
"""

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mavcg.choose.algorithms.choice import Problem, make_choice
from mavcg.choose.algorithms.network import Network, NetworkNode
from mavcg.choose.algorithms.questions import SelectQuestion
from mavcg.choose.algorithms.select_network import problem_on
from mavcg.choose.algorithms.select_workers import board_of, workers_of
from mavcg.choose.algorithms.strategies import Selected, select
from mavcg.errors import MavcgError
from mavcg.graph.layout import Layout
from mavcg.hardware.core_model import CoreModel
from mavcg.passes.graph.layout_forms import BINARY, FORMS

MOST_IMAGES = 1 << 20
IMAGES_A_CALL = (1, 2, 4, 8)


@dataclass(frozen=True)
class BatchPlan:
    """A division of a batch among groups of threads that work at the same time.

    at_a_time: number of groups. threads_each: threads of a group. workers: of all threads, group by group. image_ms:
    time per image by group; all groups run one library, whose primitives are selected for the first, fastest group.
    batch_ms: time of all images, where each call goes to the group that ends it first. images_a_call: images that the
    library computes per call.
    """

    at_a_time: int
    threads_each: int
    workers: tuple[CoreModel, ...]
    image_ms: tuple[float, ...]
    batch_ms: float
    images_a_call: int = 1

    @property
    def team(self) -> tuple[CoreModel, ...]:
        """The threads of the fastest group."""
        return self.workers[: self.threads_each]


def plan_batch(network: Network, board: str, question: SelectQuestion, images: int) -> tuple[BatchPlan, ...]:
    """Return all divisions of the threads into equal groups and of the images into calls, fastest first.

    A call computes 1, 2, 4 or 8 images. Raises: MavcgError for a number of images below 1 or too large, an unknown
    board, and what a selection raises.
    """
    if not 1 <= images <= MOST_IMAGES:
        raise MavcgError(f"--batch {images}: give 1 to {MOST_IMAGES} images")
    workers = workers_of(board_of(board), question.core, question.threads)
    plans = []
    divisors = [groups for groups in range(1, len(workers) + 1) if len(workers) % groups == 0]
    for together in (count for count in IMAGES_A_CALL if images % count == 0):
        batched = of_batch(network, together)
        for groups in divisors:
            size = len(workers) // groups
            calls = _times_of_groups(batched, workers, size, question)
            image_ms = tuple(ms / together for ms in calls)
            batch_ms = batch_time(calls, images // together)
            plans.append(BatchPlan(groups, size, tuple(workers), image_ms, batch_ms, together))
    return tuple(sorted(plans, key=lambda plan: (plan.batch_ms, plan.at_a_time, plan.images_a_call)))


def of_batch(network: Network, images: int) -> Network:
    """Return a network of one image as the network of `images` images per call.

    In blocks of channels, constants and slices of a batch have no form (passes/graph/layout_forms.py): nodes that read
    anything but whole images use other layouts.
    """
    if images == 1:
        return network
    reads = Counter(link.target for link in network.links)

    def node_of(node: NetworkNode) -> NetworkNode:
        if node.scenario is not None:
            return replace(node, scenario=replace(node.scenario, batch=images))
        form = FORMS.get(node.op)
        whole = form is not None and form.batch_in_blocks and (reads[node.name] > 1 or node.op not in BINARY)
        layouts = tuple(layout for layout in node.layouts if whole or layout is not Layout.CHWC)
        return replace(node, layouts=layouts or node.layouts)

    links = tuple(replace(link, size=replace(link.size, n=images)) for link in network.links)
    return replace(network, nodes={name: node_of(node) for name, node in network.nodes.items()}, links=links)


def batch_time(image_ms: Sequence[float], images: int) -> float:
    """Return the time of `images` images, each computed by the group that ends it first. image_ms: by group."""
    ends = [(ms, ms) for ms in image_ms]
    heapq.heapify(ends)
    last = 0.0
    for _ in range(images):
        end, ms = heapq.heappop(ends)
        last = max(last, end)
        heapq.heappush(ends, (end + ms, ms))
    return last


def _times_of_groups(
    network: Network, workers: Sequence[CoreModel], size: int, question: SelectQuestion
) -> tuple[float, ...]:
    """Return the time per image of each group, with the primitives that are selected for the first group."""
    known: dict[tuple[CoreModel, ...], float] = {}
    selected: Selected | None = None
    times = []
    for first in range(0, len(workers), size):
        team = tuple(workers[first : first + size])
        if team not in known:
            problem, _ = problem_on(network, team, question)
            if selected is None:
                selected = select(problem, question.strategy, question.time_limit_s)
            known[team] = _time_of(selected, problem)
        times.append(known[team])
    return tuple(times)


def _time_of(selected: Selected, problem: Problem) -> float:
    """Return the time of a choice by the costs of another problem of the same network."""
    numbers = {}
    for node, chosen in selected.choice.chosen.items():
        same = (chosen.name, chosen.layout_in, chosen.layout_out)
        named = [
            (alternative.name, alternative.layout_in, alternative.layout_out)
            for alternative in problem.alternatives[node]
        ]
        numbers[node] = named.index(same)
    return make_choice(problem, numbers).total_ms
