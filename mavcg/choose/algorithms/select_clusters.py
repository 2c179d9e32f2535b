"""Selections for each cluster of a board, and one selection for a library of the whole board.

All versions of a library's kernels compute the same algorithm, so a node has one primitive on every core. The joint
choice is the optimum for the named cores; if none are named, it minimises the mean over clusters of the time relative
to the cluster's own optimum.
"""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mavcg.choose.algorithms.choice import Alternative, Choice, Problem, make_choice
from mavcg.choose.algorithms.costs.on_cores import costs_on
from mavcg.choose.algorithms.costs.provider import weighted_sum
from mavcg.choose.algorithms.costs.threads import threaded_costs
from mavcg.choose.algorithms.network import Network
from mavcg.choose.algorithms.questions import SelectQuestion
from mavcg.choose.algorithms.report.answer import Selection
from mavcg.choose.algorithms.select_network import problem_of, problem_on, select_on
from mavcg.choose.algorithms.select_workers import board_of, by_speed, label_of, workers_of
from mavcg.choose.algorithms.strategies import PBQP, Selected, select
from mavcg.hardware.board import Board
from mavcg.hardware.core_model import CoreModel

# A primitive suits a core if its time there is at most this multiple of the best primitive's of the same node.
SUITS = 1.25


@dataclass(frozen=True)
class OnCluster:
    """A cluster: the selection for it alone, and the board's joint choice with its costs there."""

    own: Selection
    joint: Choice

    @property
    def loss(self) -> float:
        """Extra time of the board's choice, as a fraction of the cluster's own optimum."""
        own = self.own.choice.total_ms
        return self.joint.total_ms / own - 1 if own else 0.0


@dataclass(frozen=True)
class BoardSelection:
    """A selection for a whole board.

    best_for: cores for which the choice is optimal; "" for all clusters with equal weight.
    """

    model: str
    board: str
    best_for: str
    problem: Problem
    selected: Selected
    clusters: tuple[OnCluster, ...]

    @property
    def optimal(self) -> bool:
        """True if no choice is better by this measure, which is proven."""
        return self.selected.strategy == PBQP and self.selected.proven

    def suits(self, node: str) -> tuple[str, ...]:
        """Return the cores on which a node's primitive is nearly as fast as the best one for that node alone."""
        cores = []
        for cluster in self.clusters:
            best = min(alternative.cost.ms for alternative in cluster.own.problem.alternatives[node])
            if cluster.joint.chosen[node].cost.ms <= SUITS * best:
                cores.append(cluster.own.core)
        return tuple(cores)


def select_clusters(model: str, network: Network, board: str, question: SelectQuestion) -> BoardSelection:
    """Select for each cluster and for the board; threads: those given, at most the cluster's cores.

    Raises: MavcgError as select_network.
    """
    facts = board_of(board)
    workers = [
        workers_of(facts, core, min(question.threads, _cores(facts, core)))
        for core in dict.fromkeys(facts.clusters[number].core for number in by_speed(facts))
    ]
    own = [select_on(model, network, board, cluster_workers, question) for cluster_workers in workers]
    if question.core or question.threads > 1:
        chosen_workers = workers_of(facts, question.core, question.threads)
        problem, best_for = problem_on(network, chosen_workers, question)[0], _cores_text(chosen_workers)
    else:
        problem, best_for = _mean(network, workers, own, question), ""
    selected = select(problem, question.strategy, question.time_limit_s)
    on = tuple(OnCluster(selection, _choice_at_costs(selection.problem, selected.choice.chosen)) for selection in own)
    return BoardSelection(model, board, best_for, problem, selected, on)


def _cores(board: Board, core: str) -> int:
    return sum(len(cluster.cpus) for cluster in board.clusters if cluster.core == core)


def _cores_text(workers: Sequence[CoreModel]) -> str:
    return f"{label_of(workers)}, {len(workers)} thread{'s' * (len(workers) > 1)}"


def _mean(
    network: Network, workers: Sequence[Sequence[CoreModel]], own: Sequence[Selection], question: SelectQuestion
) -> Problem:
    """Return the problem whose costs are the mean over clusters, in ms of the fastest cluster."""
    first = own[0].choice.total_ms
    weights = [first / selection.choice.total_ms / len(own) if selection.choice.total_ms else 1.0 for selection in own]
    with contextlib.ExitStack() as stack:
        costs = [costs_on(cluster_workers, question.db, stack)[0] for cluster_workers in workers]
        return problem_of(network, weighted_sum(costs, weights), question, threaded_costs(workers[0]).block)


def _choice_at_costs(problem: Problem, chosen: Mapping[str, Alternative]) -> Choice:
    """Return the choice of the same primitives and layouts with another problem's costs."""
    numbers = {}
    for name, alternatives in problem.alternatives.items():
        chosen_alternative = (chosen[name].name, chosen[name].layout_in, chosen[name].layout_out)
        numbers[name] = [
            (alternative.name, alternative.layout_in, alternative.layout_out) for alternative in alternatives
        ].index(chosen_alternative)
    return make_choice(problem, numbers)
