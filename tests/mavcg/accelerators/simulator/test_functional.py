"""The simulated core in C computes the oracle's bits, and finds its faults in damaged programs."""

import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.accelerators.image.program import AccelProgram
from mavcg.accelerators.isa.instruction import AccelInstruction, check_instruction
from mavcg.accelerators.simulator.functional import execute
from mavcg.accelerators.xgraph import XGraph
from mavcg.errors import MavcgError
from mavcg.graph import Array
from tests.conftest import examples
from tests.mavcg.accelerators.compiled import random_program
from tests.mavcg.accelerators.random_networks import random_inputs
from tests.mavcg.accelerators.simulator.oracle import oracle_execute

ADDRESSES = {"ddr", "to", "from", "second", "parameters", "sums", "to_row", "from_block"}
Result = tuple[list[tuple[int, Array]], dict[str, Array], str]


def result(execute_by: Callable[..., dict[str, Array]], program: AccelProgram, images: dict[str, Array]) -> Result:
    """The tiles, the outputs and the fault of a program."""
    tiles: list[tuple[int, Array]] = []

    def take(index: int, one: AccelInstruction, tile: Array) -> None:
        tiles.append((index, tile.copy()))

    try:
        return tiles, execute_by(program, images, take), ""
    except MavcgError as error:
        return tiles, {}, str(error)


def assert_same(program: AccelProgram, images: dict[str, Array]) -> str:
    """Compare C and oracle; return the fault, "" for none."""
    tiles, outputs, fault = result(execute, program, images)
    expected_tiles, expected, expected_fault = result(oracle_execute, program, images)
    assert fault == expected_fault
    assert [index for index, _ in tiles] == [index for index, _ in expected_tiles]
    for (index, tile), (_, wanted) in zip(tiles, expected_tiles, strict=True):
        assert np.array_equal(tile, wanted), f"instruction {index}"
    assert outputs.keys() == expected.keys()
    assert all(np.array_equal(outputs[name], expected[name]) for name in expected)
    return fault


@cache
def made(seed: int) -> tuple[XGraph, AccelProgram]:
    """The first program from this seed on that fits its target."""
    while (found := random_program(seed)) is None:
        seed += 1
    return found[0], found[2]


def changed(one: AccelInstruction, chance: random.Random) -> AccelInstruction:
    """The instruction with another value in one or two fields, or other tokens; still one that can be encoded."""
    if not one.values:
        return one
    values = dict(one.values)
    for name in chance.sample(sorted(values), min(len(values), chance.choice((1, 1, 2)))):
        low, high = one.form.by_name[name].limits
        near = (values[name] + chance.choice((-2, -1, 1, 2)), values[name] * 2, values[name] // 2)
        values[name] = min(high, max(low, chance.choice((*near, chance.randint(0, 9)))))
    if chance.random() < 0.1:
        name = chance.choice(sorted(set(values) & ADDRESSES) or sorted(values))
        values[name] = one.form.by_name[name].high
    wait = one.wait ^ (1 << chance.randrange(5) if chance.random() < 0.1 else 0)
    damaged = replace(one, values=values, wait=wait)
    try:
        check_instruction(damaged, "")
    except MavcgError:
        return one
    return damaged


def damaged(program: AccelProgram, chance: random.Random) -> AccelProgram:
    """A program with one to three instructions that are changed, repeated or lost."""
    code = list(program.instructions)
    for _ in range(chance.choice((1, 1, 3))):
        at = chance.randrange(len(code))
        if code[at].form.name != "misc.start":
            code[at : at + 1] = chance.choice([[changed(code[at], chance)]] * 8 + [[], [code[at]] * 2])
    return replace(program, instructions=tuple(code))


@settings(max_examples=3)
@given(st.integers(0, 1 << 20))
def test_random_programs_run_alike_in_both_simulators(seed: int) -> None:
    graph, program = made(seed)

    assert assert_same(program, random_inputs(graph, seed)) == ""


@settings(max_examples=examples(20, 8))
@given(st.integers(0, 3), st.integers(0, 1 << 20))
def test_damaged_programs_end_alike_in_both_simulators(program_seed: int, seed: int) -> None:
    graph, program = made(program_seed)

    assert_same(damaged(program, random.Random(seed)), random_inputs(graph, seed))


def test_a_program_without_an_end_is_refused_by_both_simulators() -> None:
    graph, program = made(0)
    endless = replace(program, instructions=program.instructions[:-1])

    assert "the code ends without misc.end" in assert_same(endless, random_inputs(graph, 0))


@pytest.mark.long
@pytest.mark.parametrize("program_seed", range(100, 110))
def test_thousands_of_damaged_programs(program_seed: int) -> None:
    graph, program = made(program_seed)
    images = random_inputs(graph, program_seed)
    faults = {assert_same(damaged(program, random.Random(seed)), images) for seed in range(150)}

    assert len(faults) > 40
