"""Selection within a limit of bytes of packed weights.

A price per byte is added to the cost of every alternative; any strategy then trades time for bytes where that is
cheapest. The smallest price at which all weights fit is found by bisection. Equal layers change together at some price,
which may save more than needed: the remaining room is filled by faster alternatives, layer by layer.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

import numpy as np

from mavcg.choose.algorithms.choice import Alternative, Problem, make_choice
from mavcg.choose.algorithms.strategies import FAMILY, LOCAL, PBQP, Selected, is_baseline, select
from mavcg.errors import MavcgError
from mavcg.kernels.primitives.sparse.family import mask_of
from mavcg.specs.primitive import F32_BYTES, Epilogue, Primitive, Scenario

T = TypeVar("T")
FIRST_PRICE = 1e-9  # ms per byte: a millisecond per megabyte
MOST_PRICE = 1e3
STEPS = 12  # bisection steps between two prices
SLOWER = 12.0  # alternatives beyond this multiple of the fastest one's time are not considered
SLACK = 1.05  # multiple of the weights' own bytes, padded to panels, that counts as the smallest packing


@dataclass(frozen=True)
class Option:
    """An alternative: its time in ms, and its bytes of packed weights."""

    name: str
    ms: float
    bytes: int


class TooSmall(MavcgError):
    """Raised if no choice fits the limit. least_bytes: the smallest limit that would do."""

    def __init__(self, least_bytes: int) -> None:
        super().__init__(f"weights take at least {least_bytes} bytes")
        self.least_bytes = least_bytes


@lru_cache(4096)
def weight_bytes(primitive: Primitive, scenario: Scenario, block: int) -> int:
    """Return the bytes of a primitive's packed weights."""
    weights = mask_of(scenario).astype(np.float32)  # as many zeros as in the scenario, at arbitrary positions
    return primitive.lower(scenario, weights, Epilogue(), block).weights_bytes


def by_price(choose: Callable[[float], T], bytes_of: Callable[[T], int], limit_bytes: int) -> T:
    """Return the choice at the smallest price at which it fits, by bisection.

    choose: returns the choice at a price in ms per byte; its bytes do not rise with the price. Raises: TooSmall if no
    price is high enough.
    """
    fitting = choose(0.0)
    if bytes_of(fitting) <= limit_bytes:
        return fitting
    low, high = 0.0, FIRST_PRICE
    while bytes_of(fitting := choose(high)) > limit_bytes:
        if high >= MOST_PRICE:
            raise TooSmall(bytes_of(fitting))
        low, high = high, high * 8
    for _ in range(STEPS):
        middle = (low + high) / 2
        alternative = choose(middle)
        if bytes_of(alternative) <= limit_bytes:
            high, fitting = middle, alternative
        else:
            low = middle
    return fitting


def options_within(options: Mapping[str, tuple[Option, ...]], limit_bytes: int) -> dict[str, Option]:
    """Return one option for each name: nearly the fastest that fit the limit together. Raises: TooSmall."""

    def choose(price: float) -> dict[str, Option]:
        return {
            name: min(alternatives, key=lambda alternative: alternative.ms + price * alternative.bytes)
            for name, alternatives in options.items()
        }

    def size(chosen: Mapping[str, Option]) -> int:
        return sum(alternative.bytes for alternative in chosen.values())

    fitting = by_price(choose, size, limit_bytes)
    room = limit_bytes - size(fitting)
    for name, alternative in _gains(fitting, options):
        more = alternative.bytes - fitting[name].bytes
        if alternative.ms < fitting[name].ms and more <= room:
            fitting[name], room = alternative, room - more
    return fitting


def _gains(current: Mapping[str, Option], options: Mapping[str, tuple[Option, ...]]) -> list[tuple[str, Option]]:
    """Return the faster alternatives of all names, those with the most time saved per byte first."""
    faster = [
        (name, alternative)
        for name, alternatives in options.items()
        for alternative in alternatives
        if alternative.ms < current[name].ms
    ]
    return sorted(faster, key=lambda pair: (pair[1].ms - current[pair[0]].ms) / max(1, pair[1].bytes))


def select_within(
    problem: Problem, strategy: str, limit_bytes: int, block: int, time_limit_s: float
) -> tuple[Problem, Selected]:
    """Select by a strategy with the convolutions' packed weights within a limit.

    Returns: the problem with the alternatives that were considered, and the selection. Raises: TooSmall, and as select.
    """
    few, sizes = _pareto_alternatives(problem, strategy, block)

    def choose(price: float) -> Selected:
        priced = {
            name: tuple(
                _dearer(alternative, price * sizes[name][i] if name in sizes else 0.0)
                for i, alternative in enumerate(some)
            )
            for name, some in few.alternatives.items()
        }
        at_price = select(replace(few, alternatives=priced), strategy, time_limit_s)
        numbers = {
            name: next(
                i for i, alternative in enumerate(priced[name]) if alternative is chosen or alternative == chosen
            )
            for name, chosen in at_price.choice.chosen.items()
        }
        return replace(at_price, choice=make_choice(few, numbers), lower_bound_ms=None, proven=False)

    fitting = by_price(choose, lambda alternative: _size(few, alternative, sizes), limit_bytes)
    return few, _fill(few, fitting, sizes, limit_bytes - _size(few, fitting, sizes))


def _dearer(alternative: Alternative, ms: float) -> Alternative:
    return replace(alternative, cost=replace(alternative.cost, ms=alternative.cost.ms + ms)) if ms else alternative


def _size(problem: Problem, selected: Selected, sizes: Mapping[str, tuple[int, ...]]) -> int:
    chosen = selected.choice.chosen
    return sum(some[problem.alternatives[name].index(chosen[name])] for name, some in sizes.items())


def _fill(problem: Problem, fitting: Selected, sizes: Mapping[str, tuple[int, ...]], room: int) -> Selected:
    """Return the selection with faster primitives of the same layouts while there is room for their weights."""
    chosen = dict(fitting.choice.chosen)
    current, options = {}, {}
    for name, some in sizes.items():
        own = chosen[name]
        options[name] = tuple(
            Option(str(i), alternative.cost.ms, some[i])
            for i, alternative in enumerate(problem.alternatives[name])
            if (alternative.layout_in, alternative.layout_out) == (own.layout_in, own.layout_out)
        )
        number = problem.alternatives[name].index(own)
        current[name] = Option(str(number), own.cost.ms, some[number])
    for name, alternative in _gains(current, options):
        more = alternative.bytes - current[name].bytes
        if alternative.ms < current[name].ms and more <= room:
            current[name], room = alternative, room - more
    numbers = {name: problem.alternatives[name].index(alternative) for name, alternative in chosen.items()}
    numbers |= {name: int(alternative.name) for name, alternative in current.items()}
    return replace(fitting, choice=make_choice(problem, numbers))


def _pareto_alternatives(problem: Problem, strategy: str, block: int) -> tuple[Problem, dict[str, tuple[int, ...]]]:
    """Return the problem without alternatives that another of the same layouts beats in time and bytes.

    Returns with it the bytes of the remaining ones. Only alternatives that the strategy can choose are packed to learn
    their
    size.
    """
    considered: dict[str, tuple[Alternative, ...]] = dict(problem.alternatives)
    sizes: dict[str, tuple[int, ...]] = {}
    for name, alternatives in problem.alternatives.items():
        scenario = problem.network.nodes[name].scenario
        if scenario is None:
            continue
        usable = sorted(
            (alternative for alternative in alternatives if _is_of(alternative, strategy)),
            key=lambda alternative: alternative.cost.ms,
        )
        front: list[tuple[Alternative, int]] = []
        for alternative in usable:
            same_layouts = [size for rival, size in front if _layouts(rival) == _layouts(alternative)]
            if min(same_layouts, default=_enough(scenario, block) + 1) <= _enough(scenario, block):
                continue
            if front and alternative.cost.ms > SLOWER * front[0][0].cost.ms and (same_layouts or strategy == PBQP):
                continue
            assert alternative.primitive is not None
            size = weight_bytes(alternative.primitive, scenario, block)
            if size < min(same_layouts, default=size + 1):
                front.append((alternative, size))
        considered[name] = tuple(alternative for alternative, _ in front)
        sizes[name] = tuple(size for _, size in front)
    return replace(problem, alternatives=considered), sizes


def _layouts(alternative: Alternative) -> tuple[str, str]:
    return alternative.layout_in, alternative.layout_out


def _is_of(alternative: Alternative, strategy: str) -> bool:
    if strategy in (PBQP, LOCAL) or alternative.primitive is None:
        return True
    return alternative.primitive.family == strategy.removeprefix(FAMILY) or is_baseline(alternative)


def _enough(s: Scenario, block: int) -> int:
    """Return the bytes at which a packing counts as the smallest.

    The weights' own, padded to panels, and some slack.
    """
    panels = -(-(s.m // s.groups) // block) * block * s.groups
    return int(SLACK * panels * (s.c // s.groups) * s.taps * F32_BYTES)
