"""Strategies of selection: the global optimum, and simpler ones to compare it with.

As in the paper (CGO 2018, sections 2.2 and 5.4): "sum2d" is the baseline; "family:NAME" replaces it, layer by layer, by
the family's fastest primitive if that is faster, whatever conversions this needs; "local" keeps every image in CHW and
uses the fastest primitive that reads and writes CHW; "pbqp" is the optimum over all primitives, with conversions.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mavcg.choose.algorithms.choice import Alternative, Choice, Problem, instance_of, make_choice
from mavcg.choose.algorithms.network import Kind
from mavcg.choose.limits.arena_need import peak
from mavcg.choose.limits.limited import solve_within
from mavcg.choose.pbqp import Infeasible, solve
from mavcg.errors import MavcgError
from mavcg.kernels.primitives.eight_bit import DEFAULTS as EIGHT_BIT_DEFAULTS
from mavcg.kernels.primitives.registry import all_primitives, eight_bit_primitives
from mavcg.specs.primitive import Layout

ENGINE = "engine"  # of a library: its own algorithms
PBQP, LOCAL, SUM2D, FAMILY = "pbqp", "local", "sum2d", "family:"
CANONICAL = Layout.CHW
TIME_LIMIT_S = 60.0


@dataclass(frozen=True)
class Selected:
    """Result of a strategy. lower_bound_ms: cost that no choice can undercut; None if unknown.

    solver_seconds: of the solver alone, without computing costs.
    """

    strategy: str
    choice: Choice
    lower_bound_ms: float | None
    proven: bool
    solver_seconds: float

    @property
    def total_ms(self) -> float:
        """Time of primitives and conversions, in ms."""
        return self.choice.total_ms


def strategy_names(problem: Problem) -> tuple[str, ...]:
    """Return the names of all strategies; the families are those of the network's alternatives."""
    families = dict.fromkeys(
        alternative.primitive.family
        for alternatives in problem.alternatives.values()
        for alternative in alternatives
        if alternative.primitive
    )
    return (PBQP, LOCAL, SUM2D, *(f"{FAMILY}{name}" for name in families if name != SUM2D))


def check_strategy(strategy: str, names: Sequence[str]) -> None:
    """Raise MavcgError for a strategy that is unknown, or whose family computes no convolution of this network."""
    if strategy in names:
        return
    families = {f"{FAMILY}{primitive.family}" for primitive in (*all_primitives(), *eight_bit_primitives())}
    why = "computes none of these convolutions within the limits" if strategy in families else "unknown strategy"
    raise MavcgError(f"--strategy {strategy}: {why}; choose one of {', '.join(names)}")


def select(problem: Problem, strategy: str = PBQP, time_limit_s: float = TIME_LIMIT_S) -> Selected:
    """Choose by a strategy; the total is summed anew from the chosen alternatives.

    Raises: MavcgError for an unknown strategy; NothingFor for a node without a usable primitive; Infeasible if required
    conversions have no cost.
    """
    check_strategy(strategy, strategy_names(problem))
    if strategy == PBQP:
        return _solve(problem, strategy, None, time_limit_s)
    if strategy == LOCAL:
        return _local(problem)
    begin = time.monotonic()
    family = strategy.removeprefix(FAMILY)
    allowed = {
        node.name: (_best_of(problem, node.name, family),)
        for node in problem.network.nodes.values()
        if node.kind is Kind.CONVOLUTION
    }
    spent = time.monotonic() - begin
    selected = _solve(problem, strategy, allowed, time_limit_s)
    return Selected(strategy, selected.choice, None, False, selected.solver_seconds + spent)


def compare(problem: Problem, time_limit_s: float = TIME_LIMIT_S) -> dict[str, Selected | None]:
    """Return the result of every strategy; None for one that cannot compute this network."""
    results: dict[str, Selected | None] = {}
    for name in strategy_names(problem):
        try:
            results[name] = select(problem, name, time_limit_s)
        except (Infeasible, NothingFor):
            results[name] = None
    return results


class NothingFor(MavcgError):
    """Raised if a strategy has no primitive for a node."""


def _solve(
    problem: Problem, strategy: str, allowed: Mapping[str, tuple[int, ...]] | None, time_limit_s: float
) -> Selected:
    """Return the optimum of the allowed alternatives; for fixed primitives it is over the layouts of dummies only."""
    if problem.memory is not None:
        limited = solve_within(problem, allowed, time_limit_s)
        choice = make_choice(problem, limited.choice)
        return Selected(strategy, choice, limited.lower_bound, limited.optimal, limited.seconds)
    solution = solve(instance_of(problem, allowed), time_limit_s)
    choice = make_choice(problem, {name: solution.choice[name] for name in problem.alternatives})
    return Selected(strategy, choice, solution.lower_bound, solution.optimal, solution.seconds)


def _local(problem: Problem) -> Selected:
    """Return the fastest primitive of each node that reads and writes CHW; conversions only at nodes fixed to HWC."""
    begin = time.monotonic()
    chosen = {}
    for node in problem.network.nodes.values():
        if node.kind is Kind.CONVOLUTION:
            chosen[node.name] = _fastest(problem, node.name, LOCAL, _canonical)
        else:
            layouts = [alternative.layout_in for alternative in problem.alternatives[node.name]]
            chosen[node.name] = layouts.index(CANONICAL) if CANONICAL in layouts else 0
    choice = make_choice(problem, chosen)
    if problem.memory is not None:
        need = peak(problem, choice.chosen, problem.memory.block)
        if need.bytes > problem.memory.bytes:
            raise NothingFor(
                f"node '{need.node}': {LOCAL} needs {need.bytes} bytes, and the limit is {problem.memory.bytes}; use "
                f"--strategy {PBQP}"
            )
    return Selected(LOCAL, choice, None, False, time.monotonic() - begin)


def is_baseline(alternative: Alternative) -> bool:
    """True for a primitive that every strategy may use: sum2d, and the engine's 8-bit default."""
    return alternative.primitive is not None and (
        alternative.primitive.family == SUM2D or alternative.name in EIGHT_BIT_DEFAULTS
    )


def _canonical(alternative: Alternative) -> bool:
    return (
        alternative.name in EIGHT_BIT_DEFAULTS
        or alternative.layout_in is CANONICAL
        and alternative.layout_out is CANONICAL
    )


def _best_of(problem: Problem, node: str, family: str) -> int:
    """Return the fastest alternative of a family or the baseline."""

    def is_allowed(alternative: Alternative) -> bool:
        return alternative.primitive is not None and (
            alternative.primitive.family == family or is_baseline(alternative)
        )

    return _fastest(problem, node, family, is_allowed)


def _fastest(problem: Problem, node: str, strategy: str, allowed: Callable[[Alternative], bool]) -> int:
    alternatives = problem.alternatives[node]
    able = [i for i, alternative in enumerate(alternatives) if allowed(alternative)]
    if not able:
        raise NothingFor(
            f"node '{node}': {strategy} has no primitive for it that has a cost and is within the limits; "
            f"use --strategy {PBQP}"
        )
    return min(able, key=lambda i: (alternatives[i].cost.ms, i))
