"""Division of a batch of images among threads: all threads on one image, or several images at a time.

With few threads an image each needs no handing over of steps and reads weights once an image; all threads on one image
need the least memory and give the first result soonest. What is faster depends on how well a network's layers divide,
and on what threads take from one another: caches and bandwidth. The CGO 2018 paper names it as further work.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from mavcg.cost_model.board_machine import ClusterMachine
from mavcg.errors import MavcgError
from mavcg.selection.choice import Problem, make_choice
from mavcg.selection.network import Network
from mavcg.selection.select_network import SelectQuestion, problem_on
from mavcg.selection.select_workers import board_of, workers_of
from mavcg.selection.strategies import Selected, select

MOST_IMAGES = 1 << 20


@dataclass(frozen=True)
class BatchPlan:
    """A batch by so many images at a time, each by as many threads.

    workers: of all threads, those of an image one after the other. image_ms: of an image, by the group of threads that
    computes it; all groups run one library, whose primitives are selected for the first, fastest one. batch_ms: of all
    images, each computed by the group that ends it first.
    """

    at_a_time: int
    threads_each: int
    workers: tuple[ClusterMachine, ...]
    image_ms: tuple[float, ...]
    batch_ms: float

    @property
    def team(self) -> tuple[ClusterMachine, ...]:
        """The threads of the fastest group."""
        return self.workers[: self.threads_each]


def plan_batch(network: Network, board: str, question: SelectQuestion, images: int) -> tuple[BatchPlan, ...]:
    """Every division of the question's threads into groups of equal size, the one that takes least first.

    Raises: MavcgError for a number of images that is none, an unknown board, and what a selection raises.
    """
    if not 1 <= images <= MOST_IMAGES:
        raise MavcgError(f"--batch {images}: give 1 to {MOST_IMAGES} images")
    workers = workers_of(board_of(board), question.core, question.threads)
    plans = []
    for groups in range(1, len(workers) + 1):
        if len(workers) % groups == 0:
            times = _times_of_groups(network, workers, len(workers) // groups, question)
            plans.append(
                BatchPlan(groups, len(workers) // groups, tuple(workers), times, batch_time(times, images))
            )  # fmt: skip
    return tuple(sorted(plans, key=lambda plan: (plan.batch_ms, plan.at_a_time)))


def batch_time(image_ms: Sequence[float], images: int) -> float:
    """Return the time of `images` images, each computed by the group that ends it first. image_ms: of each group."""
    ends = [(ms, ms) for ms in image_ms]
    heapq.heapify(ends)
    last = 0.0
    for _ in range(images):
        end, ms = heapq.heappop(ends)
        last = max(last, end)
        heapq.heappush(ends, (end + ms, ms))
    return last


def _times_of_groups(
    network: Network, workers: Sequence[ClusterMachine], size: int, question: SelectQuestion
) -> tuple[float, ...]:
    """Return the time of an image by each group, by the primitives that are selected for the first."""
    found: dict[tuple[ClusterMachine, ...], float] = {}
    selected: Selected | None = None
    times = []
    for first in range(0, len(workers), size):
        team = tuple(workers[first : first + size])
        if team not in found:
            problem, _ = problem_on(network, team, question)
            if selected is None:
                selected = select(problem, question.strategy, question.time_limit_s)
            found[team] = _time_of(selected, problem)
        times.append(found[team])
    return tuple(times)


def _time_of(selected: Selected, problem: Problem) -> float:
    """Return the time of a choice by the costs of another problem of the same network."""
    numbers = {}
    for node, chosen in selected.choice.chosen.items():
        same = (chosen.name, chosen.layout_in, chosen.layout_out)
        named = [(one.name, one.layout_in, one.layout_out) for one in problem.alternatives[node]]
        numbers[node] = named.index(same)
    return make_choice(problem, numbers).total_ms
