"""Compiled random networks on random targets compute the reference's bits, in whatever order tokens permit."""

from dataclasses import replace

import numpy as np
import pytest

from mavcg.accelerators.fixed_point import evaluate
from mavcg.accelerators.simulator.cycles import simulate
from mavcg.errors import MavcgError
from tests.mavcg.accelerators.compiled import check_against_reference, random_program
from tests.mavcg.accelerators.random_networks import random_inputs
from tests.mavcg.accelerators.simulator.oracle import oracle_execute


@pytest.mark.parametrize("seed", [3, 4, 8, 12, 17, 21])
def test_bits_are_the_references(seed: int) -> None:
    made = random_program(seed)
    assert made is not None

    assert check_against_reference(*made, seed) > 0
    assert simulate(made[2]).cycles > 0


@pytest.mark.parametrize(("seed", "images"), [(3, 2), (8, 5), (12, 2), (21, 3)])
def test_bits_of_a_batch_are_the_references(seed: int, images: int) -> None:
    made = random_program(seed, images=images)
    assert made is not None

    assert check_against_reference(*made, seed) > 0
    assert simulate(made[2]).cycles > 0


@pytest.mark.long
@pytest.mark.parametrize("first", range(3000, 3200, 50))
def test_bits_of_batches_are_the_references_for_hundreds(first: int) -> None:
    fitting = 0
    for seed in range(first, first + 50):
        made = random_program(seed, mixed=seed % 2 == 0, images=2 + seed % 4)
        if made is not None:
            fitting += 1
            check_against_reference(*made, seed)
            simulate(made[2])
    assert fitting >= 40


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 1600, 50))
def test_bits_are_the_references_for_hundreds(first: int) -> None:
    """600 networks; those that do not fit their random target are fewer than a tenth."""
    fitting = 0
    for seed in range(first, first + 50):
        made = random_program(seed)
        if made is not None:
            fitting += 1
            check_against_reference(*made, seed)
            simulate(made[2])
    assert fitting >= 42


def test_missing_tokens_are_found() -> None:
    """Without tokens some order of the units computes something else, or reads what is not there yet."""
    made = random_program(8)
    assert made is not None
    graph, target, program = made
    bare = replace(program, instructions=tuple(replace(one, wait=0, signal=0) for one in program.instructions))
    images = random_inputs(graph, 8)
    expected = evaluate(graph, images, target.rounding)

    def differs(seed: int) -> bool:
        try:
            return any(not np.array_equal(v, expected[k]) for k, v in oracle_execute(bare, images, seed=seed).items())
        except MavcgError:
            return True

    assert any(differs(seed) for seed in range(5))
