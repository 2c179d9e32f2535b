"""A selection that keeps to a number of bytes of packed weights.

A byte gets a price, which is added to what every alternative costs; any strategy then gives up time where a byte costs
least of it. The least price at which all fits is searched for. Alternatives that it makes no difference for, such as
layers of one shape, change all at once at some price: so what there is room for is taken back, layer by layer.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

import numpy as np

from mavcg.errors import MavcgError
from mavcg.kernels.primitives.sparse.pattern import mask_of
from mavcg.selection.choice import Alternative, Problem, make_choice
from mavcg.selection.strategies import FAMILY, LOCAL, PBQP, Selected, is_baseline, select
from mavcg.specs.primitive import F32_BYTES, Epilogue, Primitive, Scenario

T = TypeVar("T")
FIRST_PRICE = 1e-9  # ms of a byte: a millisecond for a megabyte
MOST_PRICE = 1e3
STEPS = 12  # of the search between two prices
SLOWER = 12.0  # alternatives that take so many times as long as the fastest are not looked at
SLACK = 1.05  # over the definition's bytes, with panels filled up, as little as any primitive packs


@dataclass(frozen=True)
class Option:
    """An alternative: its ms, and its bytes of weights."""

    name: str
    ms: float
    bytes: int


class TooSmall(MavcgError):
    """Nothing fits. least_bytes: what would."""

    def __init__(self, least_bytes: int) -> None:
        super().__init__(f"weights take {least_bytes} bytes at least")
        self.least_bytes = least_bytes


@lru_cache(4096)
def weight_bytes(primitive: Primitive, scenario: Scenario, block: int) -> int:
    """Return the bytes of a primitive's packed weights."""
    weights = mask_of(scenario).astype(np.float32)  # as many zeros as the scenario says, somewhere
    return primitive.lower(scenario, weights, Epilogue(), block).weights_bytes


def by_price(choose: Callable[[float], T], bytes_of: Callable[[T], int], limit_bytes: int) -> T:
    """Return the choice at the least price at which it fits, found by bisection.

    choose: at a price in ms of a byte; its bytes do not rise with it. Raises: TooSmall where no price is enough.
    """
    found = choose(0.0)
    if bytes_of(found) <= limit_bytes:
        return found
    low, high = 0.0, FIRST_PRICE
    while bytes_of(found := choose(high)) > limit_bytes:
        if high >= MOST_PRICE:
            raise TooSmall(bytes_of(found))
        low, high = high, high * 8
    for _ in range(STEPS):
        middle = (low + high) / 2
        alternative = choose(middle)
        if bytes_of(alternative) <= limit_bytes:
            high, found = middle, alternative
        else:
            low = middle
    return found


def options_within(options: Mapping[str, tuple[Option, ...]], limit_bytes: int) -> dict[str, Option]:
    """Return one option of each, the fastest that fit together. Raises: TooSmall."""

    def choose(price: float) -> dict[str, Option]:
        return {
            name: min(some, key=lambda alternative: alternative.ms + price * alternative.bytes)
            for name, some in options.items()
        }

    def size(chosen: Mapping[str, Option]) -> int:
        return sum(alternative.bytes for alternative in chosen.values())

    found = by_price(choose, size, limit_bytes)
    room = limit_bytes - size(found)
    for name, alternative in _gains(found, options):
        more = alternative.bytes - found[name].bytes
        if alternative.ms < found[name].ms and more <= room:
            found[name], room = alternative, room - more
    return found


def _gains(found: Mapping[str, Option], options: Mapping[str, tuple[Option, ...]]) -> list[tuple[str, Option]]:
    """List the primitives that would be faster, with the most time saved per byte first."""
    faster = [
        (name, alternative) for name, some in options.items() for alternative in some if alternative.ms < found[name].ms
    ]
    return sorted(faster, key=lambda pair: (pair[1].ms - found[pair[0]].ms) / max(1, pair[1].bytes))


def select_within(
    problem: Problem, strategy: str, limit_bytes: int, block: int, time_limit_s: float
) -> tuple[Problem, Selected]:
    """Select by a strategy so that the convolutions' packed weights keep to a limit.

    Returns: the problem with the alternatives that were looked at, and what was selected. Raises: TooSmall, and what
    select raises.
    """
    few, sizes = _worth_looking_at(problem, strategy, block)

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

    found = by_price(choose, lambda alternative: _size(few, alternative, sizes), limit_bytes)
    return few, _fill(few, found, sizes, limit_bytes - _size(few, found, sizes))


def _dearer(alternative: Alternative, ms: float) -> Alternative:
    return replace(alternative, cost=replace(alternative.cost, ms=alternative.cost.ms + ms)) if ms else alternative


def _size(problem: Problem, selected: Selected, sizes: Mapping[str, tuple[int, ...]]) -> int:
    chosen = selected.choice.chosen
    return sum(some[problem.alternatives[name].index(chosen[name])] for name, some in sizes.items())


def _fill(problem: Problem, found: Selected, sizes: Mapping[str, tuple[int, ...]], room: int) -> Selected:
    """Return the selection with faster primitives of the same layouts, as far as there is room."""
    chosen = dict(found.choice.chosen)
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
    return replace(found, choice=make_choice(problem, numbers))


def _worth_looking_at(problem: Problem, strategy: str, block: int) -> tuple[Problem, dict[str, tuple[int, ...]]]:
    """Return the problem with those alternatives that no other of the same layouts beats in time and bytes; their
    bytes.

    Of the strategy alone: nothing is packed only to know how large what it cannot take would be.
    """
    kept: dict[str, tuple[Alternative, ...]] = dict(problem.alternatives)
    sizes: dict[str, tuple[int, ...]] = {}
    for name, some in problem.alternatives.items():
        scenario = problem.network.nodes[name].scenario
        if scenario is None:
            continue
        able = sorted(
            (alternative for alternative in some if _is_of(alternative, strategy)),
            key=lambda alternative: alternative.cost.ms,
        )
        front: list[tuple[Alternative, int]] = []
        for alternative in able:
            alike = [size for other, size in front if _layouts(other) == _layouts(alternative)]
            if min(alike, default=_enough(scenario, block) + 1) <= _enough(scenario, block):
                continue
            if front and alternative.cost.ms > SLOWER * front[0][0].cost.ms and (alike or strategy == PBQP):
                continue
            assert alternative.primitive is not None
            size = weight_bytes(alternative.primitive, scenario, block)
            if size < min(alike, default=size + 1):
                front.append((alternative, size))
        kept[name] = tuple(alternative for alternative, _ in front)
        sizes[name] = tuple(size for _, size in front)
    return replace(problem, alternatives=kept), sizes


def _layouts(alternative: Alternative) -> tuple[str, str]:
    return alternative.layout_in, alternative.layout_out


def _is_of(alternative: Alternative, strategy: str) -> bool:
    if strategy in (PBQP, LOCAL) or alternative.primitive is None:
        return True
    return alternative.primitive.family == strategy.removeprefix(FAMILY) or is_baseline(alternative)


def _enough(s: Scenario, block: int) -> int:
    """Return the bytes that nothing is looked for below: the definition's, with panels of output channels filled up."""
    panels = -(-(s.m // s.groups) // block) * block * s.groups
    return int(SLACK * panels * (s.c // s.groups) * s.taps * F32_BYTES)
