"""Schedules from a store: those that are not this loop's, or not correct, are not used."""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.passes.asm.isa.op import NO_SCHEDULE, Schedule
from mavcg.passes.asm.loop_schedule import SchedulingEffort, find_schedule
from mavcg.passes.asm.schedule.modulo import STAGES, schedule_loop, sequential_interval, with_emission_order
from mavcg.passes.asm.schedule.reservation_table import is_schedule_of
from tests.passes.asm.loops import LIKE_A53, LIKE_A55, complaints, edges_of, outer_product

LOOP = outer_product(4, 4)


class Planted:
    """A store with one schedule for every question; it keeps what is put."""

    def __init__(self, schedule: Any) -> None:
        self.schedule, self.kept = schedule, list[Schedule]()

    def get(self, key: str) -> Any:
        """Return the planted schedule."""
        return self.schedule

    def put(self, key: str, schedule: Schedule) -> None:
        """Keep the schedule."""
        self.kept.append(schedule)


TIMINGS = {"like an A53": LIKE_A53, "like an A55": LIKE_A55}


@lru_cache
def found(core: str) -> tuple[Schedule, float]:
    """The schedule of LOOP that a search finds, and the interval that it has to be below."""
    timing = TIMINGS[core]
    edges = edges_of(LOOP, timing)
    below = sequential_interval(LOOP, edges, timing, len(LOOP) - 1)
    schedule = schedule_loop(LOOP, edges, timing, len(LOOP) - 1, below=below)
    assert schedule is not None
    return schedule, below


@pytest.mark.parametrize("core", TIMINGS)
@given(data=st.data())
def test_what_is_accepted_runs_without_a_complaint(core: str, data: st.DataObject) -> None:
    """Against the checker that runs a loop cycle by cycle: a changed schedule is accepted exactly if it is correct."""
    timing = TIMINGS[core]
    edges = edges_of(LOOP, timing)
    schedule, below = found(core)
    cycles = list(schedule.cycles)
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(cycles) - 1))
        cycles[at] = data.draw(st.integers(0, STAGES * schedule.interval))
    changed = replace(schedule, cycles=tuple(cycles))

    accepted = is_schedule_of(changed, LOOP, with_emission_order(edges, len(LOOP) - 1), timing, below, STAGES)

    correct = not complaints(changed, LOOP, edges, timing, len(LOOP) - 1)
    assert accepted == (correct and max(cycles) < STAGES * schedule.interval)


def spoiled(schedule: Schedule) -> dict[str, Any]:
    """Schedules that a store could hold and that must not be used."""
    cycles = schedule.cycles
    return {
        "all at once": replace(schedule, cycles=(0,) * (len(cycles) - 1) + cycles[-1:]),
        "too few": replace(schedule, cycles=cycles[1:]),
        "too many": replace(schedule, cycles=(0, *cycles)),
        "reversed": replace(schedule, cycles=(*reversed(cycles[:-1]), cycles[-1])),
        "no interval": replace(schedule, interval=0),
        "negative interval": replace(schedule, interval=-4),
        "a fraction": replace(schedule, interval=schedule.interval + 0.5),  # type: ignore[arg-type]
        "truth": replace(schedule, interval=True),
        "text": replace(schedule, cycles=tuple(map(str, cycles))),  # type: ignore[arg-type]
        "long": replace(schedule, interval=10**9, cycles=(*cycles[:-1], 10**9 - 1)),
        "far": replace(schedule, cycles=(10**9, *cycles[1:])),
        "branch in the middle": replace(schedule, cycles=(*cycles[:-1], 0)),
        "an unknown algorithm": replace(schedule, by="\x1b[2J"),
    }


NAMES = list(spoiled(Schedule(3, (0, 1, 2), "heuristic")))


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", NAMES)
def test_a_planted_schedule_is_searched_for_again(name: str) -> None:
    edges = edges_of(LOOP, LIKE_A55)
    schedule, below = found("like an A55")
    store = Planted(spoiled(schedule)[name])

    used = find_schedule(LOOP, edges, LIKE_A55, SchedulingEffort(store=store), below)

    assert used == schedule and store.kept == [schedule]


def test_a_right_one_is_used_without_a_search() -> None:
    edges = edges_of(LOOP, LIKE_A55)
    schedule, below = found("like an A55")
    for kept, result in ((schedule, schedule), (NO_SCHEDULE, None)):
        store = Planted(kept)
        assert find_schedule(LOOP, edges, LIKE_A55, SchedulingEffort(store=store), below) == result and not store.kept
