"""Reuse distances against a cache that is simulated byte by byte; what is moved."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.cost_model.memory import level_for
from mavcg.hardware.accelerator import MemoryLevel
from mavcg.predict.memory import reuse_distances, step_traffic
from mavcg.predict.work import INPUT, OUTPUT, StepWork, Touch
from tests.conftest import examples

BLOCK = 16


def program(uses: list[set[int]]) -> list[StepWork]:
    """Steps that touch these blocks of an arena."""
    return [
        StepWork(
            "s", "op", "k", "f", 1, 1, 0, 1,
            tuple(Touch(INPUT, "arena", BLOCK * block, BLOCK, BLOCK) for block in sorted(blocks)),
        )
        for blocks in uses
    ]  # fmt: skip


@settings(max_examples=examples(60, 24))
@given(st.lists(st.sets(st.integers(0, 9), min_size=1, max_size=4), min_size=1, max_size=7))
def test_distances_are_those_of_least_recent_use(uses: list[set[int]]) -> None:
    found = reuse_distances(program(uses))

    for index, blocks in enumerate(uses):
        for block, far in zip(sorted(blocks), found[index].bytes, strict=True):
            between: set[int] = {block}
            for back in range(1, len(uses) + 1):
                earlier = uses[(index - back) % len(uses)]
                if block in earlier:
                    break
                between |= earlier
            assert far == BLOCK * len(between)


def test_weights_that_one_step_reads_come_back_after_the_whole_run(make: Any) -> None:
    first, second = make.step(), make.step(sizes=(100, 50, 60))
    input_, weights, output = second.touches
    second = replace(second, touches=(input_, replace(weights, begin=500), output))

    everything = 1000 + 500 + 800 + 50  # the second's input and output lie where the first's are
    assert [distances.bytes[1] for distances in reuse_distances([first, second])] == [everything, everything]


def test_half_of_an_operand_that_was_just_written_counts_as_there(make: Any) -> None:
    first, second = make.step(), make.step(sizes=(1500, 50, 60))

    assert reuse_distances([first, second])[1].bytes[0] == 1500


def test_the_nearest_level_that_holds_it() -> None:
    levels = [MemoryLevel("L1", 10, shared_bytes=100), MemoryLevel("L2", 5, shared_bytes=1000)]

    assert [level_for(far, levels) for far in (0, 100, 101, 1000, 1001)] == [0, 0, 1, 1, 2]


def test_what_is_written_moves_twice_and_weights_move_for_every_task(make: Any) -> None:
    levels = make.worker(sizes=(400, 3000, 10**6)).machine.accelerator.levels
    step = make.step(rows=4, sizes=(1000, 500, 800))
    once = make.step(rows=1, sizes=(1000, 500, 800))
    far = make.model(step).distances  # all from beyond the last level

    everything = 1000 + 500 + 2 * 800
    assert step_traffic(once, far, levels).crossing == (everything, everything, everything)
    # 3 more tasks read the 500 bytes again: they are in L2, as they and a quarter of the rest fit there.
    assert step_traffic(step, far, levels).crossing == (everything + 3 * 500, everything, everything)
    assert step_traffic(step, far, levels).ns(levels) == everything / 5.0


def test_tasks_of_channels_read_the_input_again_and_the_residual_not(make: Any) -> None:
    levels = make.worker(sizes=(400, 3000, 10**6)).machine.accelerator.levels
    step = make.step(rows=4, by_channels=True)
    residual = Touch(INPUT, "arena", 9000, 600, 600)
    more = StepWork(**{**vars(step), "touches": (*step.touches, residual)})

    assert step_traffic(more, make.model(more).distances, levels).crossing[0] == 1000 + 500 + 1600 + 600 + 3 * 1000


def test_an_output_in_cache_moves_nothing(make: Any) -> None:
    levels = make.worker().machine.accelerator.levels
    touch = Touch(OUTPUT, "arena", 0, 64, 64)
    step = StepWork("s", "op", "k", "f", 1, 1, 0, 1, (touch,))

    assert step_traffic(step, reuse_distances([step])[0], levels).crossing == (0, 0, 0)
