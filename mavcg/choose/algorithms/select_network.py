"""Selection of a network's primitives for cores of a board: the options and the work of `mavcg select`."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from mavcg.choose.algorithms.choice import Limits, MemoryLimit, Problem, make_problem
from mavcg.choose.algorithms.costs.database import KnownCosts
from mavcg.choose.algorithms.costs.on_cores import costs_on
from mavcg.choose.algorithms.costs.provider import (
    IMPORTED,
    MEASURED,
    SIMULATED,
    CostProvider,
)
from mavcg.choose.algorithms.costs.rows import text_of
from mavcg.choose.algorithms.costs.threads import threaded_costs
from mavcg.choose.algorithms.foreign import ForeignCosts, check_host, foreign_gain, primitives_of
from mavcg.choose.algorithms.library import USUAL
from mavcg.choose.algorithms.network import Network
from mavcg.choose.algorithms.questions import SelectQuestion
from mavcg.choose.algorithms.report.answer import Selection
from mavcg.choose.algorithms.select_workers import board_of, label_of, workers_of
from mavcg.choose.algorithms.strategies import PBQP, Selected, compare, select
from mavcg.choose.limits.arena_need import peak
from mavcg.errors import MavcgError
from mavcg.hardware.core_model import CoreModel
from mavcg.kernels.primitives.registry import all_primitives, eight_bit_primitives, find_primitive


def select_network(model: str, network: Network, board: str, question: SelectQuestion) -> Selection:
    """Select by the requested strategy, and by all others for comparison.

    Costs are the database's first, then modelled.
    Raises: MavcgError for an unknown board, core or strategy, limits that leave no primitive, or an invalid database.
    """
    check_host(question.foreign, board)
    facts = board_of(board)
    return select_on(model, network, board, workers_of(facts, question.core, question.threads), question)


def select_on(
    model: str, network: Network, board: str, workers: Sequence[CoreModel], question: SelectQuestion
) -> Selection:
    """Select like select_network, on these cores.

    With several cores the strategies are also compared on the first alone.
    """
    problem, notes = problem_on(network, workers, question)
    compared = compare(problem, question.time_limit_s)
    # SelectionOptions again raises the error for a strategy that is unknown or cannot compute the network.
    selected = compared.get(question.strategy) or select(problem, question.strategy, question.time_limit_s)
    best = selected if question.strategy == PBQP else compared.get(PBQP)
    gain = foreign_gain(problem, question.foreign, best, question.time_limit_s) if question.foreign and best else None
    single: Mapping[str, Selected | None] = {}
    if len(workers) > 1:
        first = workers_of(board_of(board), workers[0].cluster.core)
        single = compare(problem_on(network, first, question)[0], question.time_limit_s)
    assumed = tuple(dict.fromkeys(words for machine in workers for words in machine.assumed))
    block = threaded_costs(workers).block
    return Selection(
        model,
        board,
        label_of(workers),
        len(workers),
        problem,
        selected,
        compared,
        assumed,
        notes,
        peak(problem, selected.choice.chosen, block),
        single,
        gain,
    )


def problem_on(
    network: Network, workers: Sequence[CoreModel], question: SelectQuestion
) -> tuple[Problem, tuple[str, ...]]:
    """Return the selection problem with the costs of these cores, and notes about the costs."""
    with contextlib.ExitStack() as stack:
        costs, known = costs_on(workers, question.db, stack)
        problem = problem_of(network, costs, question, threaded_costs(workers).block)
        return problem, () if known is None else tuple(_describe_outdated(problem, known))


def problem_of(network: Network, costs: CostProvider, question: SelectQuestion, block: int) -> Problem:
    """Return the selection problem within the requested limits.

    block: channels per block of CHWc. Raises: MavcgError.
    """
    if question.max_arena_bytes is not None and question.shared:
        raise MavcgError("--max-arena: counts conversions for each reader; leave out --share-conversions")
    limits = Limits(question.max_error, question.max_workspace_bytes)
    primitives = (*all_primitives(), *eight_bit_primitives(), *primitives_of(question.foreign))
    if question.foreign:
        costs = ForeignCosts(costs, find_primitive(USUAL[False]))
    problem = make_problem(network, costs, primitives, limits, question.shared)
    memory = None if question.max_arena_bytes is None else MemoryLimit(question.max_arena_bytes, block)
    return replace(problem, memory=memory)


def _describe_outdated(problem: Problem, known: KnownCosts) -> Iterator[str]:
    """Yield sentences about the costs in the database that belong to other kernels or another compiler."""
    outdated = known.outdated_costs()
    if not outdated.measured and not outdated.imported:
        return
    kind_of = {
        text_of((node.scenario, alternative.name)): alternative.cost.kind
        for node in problem.network.convolutions
        if node.scenario is not None
        for alternative in problem.alternatives[node.name]
    }
    unused = sum(text in outdated.measured and kind not in (MEASURED, SIMULATED) for text, kind in kind_of.items())
    if unused:
        yield (
            f"{unused} measured or simulated costs belong to other kernels or another compiler than these, "
            f"and are not used: `mavcg tune` measures them again"
        )
    used = sum(text in outdated.imported and kind == IMPORTED for text, kind in kind_of.items())
    if used:
        yield f"{used} imported costs belong to other kernels or another compiler than these"
