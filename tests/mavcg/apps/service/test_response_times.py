"""Bounds of response times beside brute force over releases, a published example, and the simulator."""

import random
from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.apps.service.periodic_task import PeriodicTask, TaskStage, utilisation
from mavcg.apps.service.response_times import feasible_priorities, response_bounds
from mavcg.apps.service.simulator import simulate
from tests.conftest import examples


def task(name: str, period: int, priority: int, *sections: int, deadline: int = 0) -> PeriodicTask:
    """Return a task of one stage."""
    return PeriodicTask(name, period, deadline or period, priority, (TaskStage("cpu", sections),))


def bounds(*tasks: PeriodicTask) -> dict[str, int | None]:
    return {bound.task.name: bound.bound_ns for bound in response_bounds(tasks)}


def random_tasks(generator: random.Random, stages: int = 1) -> list[PeriodicTask]:
    """Return up to four tasks of up to `stages` stages on three processors, with at most about 1.2 of the time."""
    count = generator.randint(1, 4)
    tasks = []
    for number in range(count):
        period = generator.choice((5, 7, 8, 10, 12, 15, 20, 30))
        parts = tuple(
            TaskStage(
                generator.choice("abc"[:stages]),
                tuple(generator.randint(1, 3) for _ in range(generator.randint(1, max(1, period // 5)))),
            )
            for _ in range(generator.randint(1, stages))
        )
        tasks.append(PeriodicTask(f"t{number}", period, generator.randint(3, 2 * period), number, parts))
    return tasks


def worst_of_schedules(tasks: list[PeriodicTask], generator: random.Random, runs: int) -> dict[str, int]:
    """Return the longest response of each task over random offsets and durations; deadlines skip nothing."""
    patient = [PeriodicTask(t.name, t.period_ns, 10**9, t.priority, t.stages) for t in tasks]
    worst = {t.name: 0 for t in tasks}
    for run in range(runs):
        offsets = {t.name: generator.randrange(t.period_ns) for t in tasks}
        sections = {t.name: t.stages for t in tasks}

        def durations(name: str, job: int, stage: int, of: dict[str, tuple[TaskStage, ...]] = sections) -> list[int]:
            return [generator.randint(1, section) for section in of[name][stage].sections]

        schedule = simulate(patient, 150, offsets, durations if run % 3 == 2 else None)
        for name in worst:
            worst[name] = max(worst[name], schedule.worst_ns(name))
    return worst


def test_a_later_job_of_an_active_period_may_be_the_worst() -> None:
    """A last section pushes urgent work onto the next job: at 100 % of the time the fifth one is the worst."""
    tasks = [task("a", 50, 2, 20), task("b", 70, 1, 12, 30)]
    responses = [job.response_ns for job in simulate(tasks, 350).jobs if job.task == "b"]
    assert responses == [62, 54, 66, 58, 70] and bounds(*tasks) == {"a": 50, "b": 70}


def test_one_processor_by_hand() -> None:
    """Three tasks: the textbook's recurrence, then with a long section of the least urgent one."""
    assert bounds(task("a", 4, 3, 1), task("b", 6, 2, *[1] * 2), task("c", 12, 1, *[1] * 3)) == {
        "a": 2,
        "b": 4,
        "c": 10,
    }
    assert bounds(task("a", 10, 2, 2), task("b", 100, 1, 5, 3))["a"] == 7
    over = response_bounds([task("a", 4, 2, 3), task("b", 8, 1, 3)])
    assert [bound.bound_ns for bound in over] == [6, None] and [bound.holds for bound in over] == [False, False]
    assert utilisation(tuple(bound.task for bound in over)) == {"cpu": 0.75 + 0.375}


@given(st.integers(0, 2**31), st.sampled_from((1, 3)))
@settings(max_examples=examples(400, 8), deadline=None)
def test_no_schedule_responds_later_than_the_bound(seed: int, stages: int) -> None:
    generator = random.Random(seed)
    tasks = random_tasks(generator, stages)
    found = worst_of_schedules(tasks, generator, 6)
    for bound in response_bounds(tasks):
        assert bound.bound_ns is None or found[bound.task.name] <= bound.bound_ns, bound


def test_bounds_of_one_processor_are_reached_but_for_a_moment_of_blocking() -> None:
    """Over all offsets of three tasks some schedule comes within the one ns that a section begins before a release."""
    tasks = [task("a", 8, 3, 2), task("b", 10, 2, 1, 2), task("c", 20, 1, 3, 1)]
    worst = dict.fromkeys("abc", 0)
    for a in range(8):
        for b in range(10):
            schedule = simulate(tasks, 80, {"a": a, "b": b})
            worst = {name: max(worst[name], schedule.worst_ns(name)) for name in worst}
    assert worst == {"a": 4, "b": 7, "c": 14} and bounds(*tasks) == {"a": 5, "b": 8, "c": 14}


def test_an_order_of_priorities_is_found_where_there_is_one() -> None:
    """Audsley's order, beside all orders."""
    found = 0
    for seed in range(40):
        tasks = random_tasks(random.Random(seed))[:3]
        order = feasible_priorities(tasks)
        holding = [
            names
            for names in permutations(t.name for t in tasks)
            if all(
                bound.holds
                for bound in response_bounds(
                    [PeriodicTask(t.name, t.period_ns, t.deadline_ns, -names.index(t.name), t.stages) for t in tasks]
                )
            )
        ]
        assert (order in holding) if holding else order is None
        found += bool(holding)
    assert 5 < found < 40


def test_a_simulated_schedule() -> None:
    """The urgent task waits for the end of a section; a job that is too late to begin is skipped."""
    tasks = [task("low", 20, 1, 3, 3), task("high", 10, 2, 2)]
    schedule = simulate(tasks, 20, {"high": 1})
    assert [(each.task, each.begin_ns, each.end_ns) for each in schedule.slices] == [
        ("low", 0, 3),
        ("high", 3, 5),
        ("low", 5, 8),
        ("high", 11, 13),
    ]
    assert all(job.kept for job in schedule.jobs) and schedule.worst_ns("high") == 4

    late = simulate([task("low", 20, 1, 9), task("high", 4, 2, 2, deadline=3)], 20, {"high": 1})
    high = [job for job in late.jobs if job.task == "high"]
    assert [(job.begin_ns, job.kept) for job in high] == [
        (None, False),
        (None, False),
        (9, True),
        (13, True),
        (17, True),
    ]


def test_stages_on_two_processors_overlap() -> None:
    """A pipeline of two stages takes a frame each 4 ns, and answers after 7."""
    pipeline = PeriodicTask("p", 4, 8, 1, (TaskStage("big", (2, 2)), TaskStage("little", (3,))))
    schedule = simulate([pipeline], 12)
    slices = [(each.processor, each.job, each.begin_ns) for each in schedule.slices]
    assert slices == [
        ("big", 0, 0),
        ("big", 1, 4),
        ("little", 0, 4),
        ("big", 2, 8),
        ("little", 1, 8),
        ("little", 2, 12),
    ]
    assert {job.response_ns for job in schedule.jobs} == {7} == {response_bounds([pipeline])[0].bound_ns}
