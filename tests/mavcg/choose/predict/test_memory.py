"""Reuse distances against a cache that is simulated byte by byte; what is moved."""

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.choose.predict.memory import Distances, reuse_distances, step_traffic
from mavcg.choose.predict.work import INPUT, OUTPUT, WEIGHT, StepWork, Touch
from mavcg.cost.board_model import core_model
from mavcg.cost.memory import level_for
from mavcg.hardware.accelerator import MemoryLevel
from mavcg.kernels.primitives.registry import all_primitives
from mavcg.profiles.load import load_board
from mavcg.specs.packed_constant import WeightParts
from mavcg.specs.primitive import Epilogue, Scenario
from tests.conftest import examples

BLOCK = 16


def program(uses: list[set[int]]) -> list[StepWork]:
    """Steps that touch these blocks of an arena."""
    return [
        StepWork(
            "s",
            "op",
            "k",
            "f",
            1,
            1,
            0,
            1,
            tuple(Touch(INPUT, "arena", BLOCK * block, BLOCK, BLOCK) for block in sorted(blocks)),
        )
        for blocks in uses
    ]


@settings(max_examples=examples(60, 8))
@given(st.lists(st.sets(st.integers(0, 9), min_size=1, max_size=4), min_size=1, max_size=7))
def test_distances_are_those_of_least_recent_use(uses: list[set[int]]) -> None:
    """Steps go through all their blocks side by side, byte by byte; of each block's bytes the mean counts."""
    found = reuse_distances(program(uses))
    trace = [(block, byte) for blocks in uses for byte in range(BLOCK) for block in sorted(blocks)]

    at = len(trace)
    twice = trace + trace
    for index, blocks in enumerate(uses):
        distances: dict[int, list[int]] = {block: [] for block in blocks}
        for _ in range(BLOCK * len(blocks)):
            last = next(n for n in range(at - 1, -1, -1) if twice[n] == twice[at])
            distances[twice[at][0]].append(len(set(twice[last:at])))
            at += 1
        for block, far in zip(sorted(blocks), found[index].bytes, strict=True):
            # Bytes are touched one after the other, and each end counts the others of its round or not.
            assert abs(far - np.mean(distances[block])) <= BLOCK / 2 + 2


def test_weights_that_one_step_reads_come_back_after_the_whole_run(make: Any) -> None:
    first, second = make.step(), make.step(sizes=(100, 50, 60))
    input_, weights, output = second.touches
    second = replace(second, touches=(input_, replace(weights, begin=500), output))

    everything = 1000 + 500 + 800 + 50  # the second's input and output lie where the first's are
    assert [distances.bytes[1] for distances in reuse_distances([first, second])] == [everything, everything]


def test_half_of_an_operand_that_was_just_written_counts_as_there(make: Any) -> None:
    first, second = make.step(), make.step(sizes=(1500, 50, 60))

    # And half of what the first wrote and the second reads beside it, of which 50 + 60 bytes are of the second alone.
    assert reuse_distances([first, second])[1].bytes[0] == 1500 + (800 + 110) // 2


def test_the_nearest_level_that_holds_it() -> None:
    levels = [MemoryLevel("L1", 10, shared_bytes=100), MemoryLevel("L2", 5, shared_bytes=1000)]

    assert [level_for(far, levels) for far in (0, 100, 101, 1000, 1001)] == [0, 0, 1, 1, 2]


def test_what_is_written_moves_twice_and_weights_move_for_every_task(make: Any) -> None:
    levels = make.worker(sizes=(400, 3000, 10**6)).levels
    step = make.step(rows=4, sizes=(1000, 500, 800))
    once = make.step(rows=1, sizes=(1000, 500, 800))
    far = make.model(step).distances  # all from beyond the last level

    everything = 1000 + 500 + 2 * 800
    assert step_traffic(once, far, levels).crossing == (everything, everything, everything)
    # 3 more tasks read the 500 bytes again: they are in L2, as they and a quarter of the rest fit there.
    assert step_traffic(step, far, levels).crossing == (everything + 3 * 500, everything, everything)
    assert step_traffic(step, far, levels).ns(levels) == everything / 5.0


def test_tasks_of_channels_read_the_input_again_and_the_residual_not(make: Any) -> None:
    levels = make.worker(sizes=(400, 3000, 10**6)).levels
    step = make.step(rows=4, by_channels=True)
    residual = Touch(INPUT, "arena", 9000, 600, 600)
    more = StepWork(**{**vars(step), "touches": (*step.touches, residual)})

    assert step_traffic(more, make.model(more).distances, levels).crossing[0] == 1000 + 500 + 1600 + 600 + 3 * 1000


def test_an_output_in_cache_moves_nothing(make: Any) -> None:
    levels = make.worker().levels
    touch = Touch(OUTPUT, "arena", 0, 64, 64)
    step = StepWork("s", "op", "k", "f", 1, 1, 0, 1, (touch,))

    assert step_traffic(step, reuse_distances([step])[0], levels).crossing == (0, 0, 0)


def test_rows_that_read_a_part_of_the_weights_read_all_of_them_once_for_each_row_of_outputs(make: Any) -> None:
    levels = make.worker(sizes=(400, 3000, 10**6)).levels
    step = make.step(rows=12, sizes=(1000, 500, 800))
    inner = replace(step, weight_parts=WeightParts(4))
    outer = replace(step, weight_parts=WeightParts(4, 4, 4))
    near = Distances((0, 0, 0))

    # 3 rows of outputs: two of them read the 500 bytes again, from L2, as they do not fit L1 beside a row.
    assert step_traffic(inner, near, levels).crossing == (2 * 500, 0, 0)
    # A part of 125 bytes is not in L1 beside a row of 600; the input is read for each of the parts, from L2, too.
    assert step_traffic(outer, near, levels).crossing == (2 * 500 + 3 * 1000, 0, 0)
    wide = make.worker(sizes=(1300, 3000, 10**6)).levels
    assert step_traffic(outer, near, wide).crossing == (3 * 1000, 0, 0)  # the part stays in L1


def test_a_direct_convolution_in_chunks_of_channels_moves_its_weights_once() -> None:
    scenario, sizes = Scenario(512, 14, 14, 1, 1, 512), (512, 512, 1, 1)
    primitive = next(p for p in all_primitives() if p.name == "direct_pixel_hwc_hwc")
    (stage,) = primitive.lower(scenario, np.zeros(sizes, np.float32), Epilogue(), 8).stages
    image, weights = 512 * 14 * 14 * 4, 512 * 512 * 4
    work = StepWork(
        "s",
        "op",
        "k",
        stage.spec.family,
        stage.spec.rows,
        1,
        0,
        1,
        (
            Touch(INPUT, "arena", 0, image, image),
            Touch(WEIGHT, "constants", 0, weights, weights),
            Touch(OUTPUT, "arena", image, image, image),
        ),
        weight_parts=stage.spec.weight_parts,
    )
    machine = core_model(load_board("exynos9820"), 2)  # an M4: 64 KiB, 512 KiB and 4 MiB
    levels = machine.levels

    crossing = step_traffic(work, Distances((3 << 20, 8 << 20, 3 << 20)), levels).crossing
    assert stage.spec.rows > 100
    assert crossing[1:] == (weights + 3 * image, weights)  # nothing comes from behind level 2 twice
