"""Transformation of functions by the passes under test, and comparison of what both forms leave behind."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from random import Random

from mavcg.assembly.code_image import assemble_image
from mavcg.assembly.emulation import State, start_state
from mavcg.assembly.equivalence import Comparison, compare
from mavcg.hardware.core import LoadPolicy
from mavcg.hardware.timing import Timing
from mavcg.passes.asm.loop_schedule import SchedulingEffort
from mavcg.passes.asm.tune import Tuned, tune
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing
from tests.passes.asm import random_code

SEEDS = range(4)


@lru_cache
def _core(name: str) -> tuple[Timing, LoadPolicy]:
    core = load_core(name)
    return load_timing(core), core.policy


def transform(text: str, core: str) -> Tuned:
    """The passes under test, with the heuristic alone: it finds the same schedules on a busy machine."""
    return tune(text, *_core(core), SchedulingEffort(0.0))


def start(seed: int) -> State:
    """Return start_state, but x0 to x7 are pointers: a small number less an offset would be near the end of all memory,
    where the emulator gives up."""
    state = start_state(seed)
    x = [value if 1 << 20 <= value < 1 << 63 else (value + (1 << 42)) % (1 << 64) for value in state.x[:8]]
    return replace(state, x=(*x, *state.x[8:]))


def differences(before: str, after: str, names: Sequence[str]) -> list[Comparison]:
    """The functions that do not leave the same behind, or never returned."""
    images = assemble_image(before, "untransformed"), assemble_image(after, "transformed")
    compared = [compare(*images, name, SEEDS, start=start) for name in names]
    return [comparison for comparison in compared if not comparison.passed]


def random_functions(count: int) -> list[random_code.RandomFunction]:
    dice = Random("functions to be mutated")

    def seeds(least: int, most: int) -> tuple[int, ...]:
        return tuple(dice.randrange(1 << 24) for _ in range(dice.randint(least, most)))

    return [random_code.RandomFunction(dice.randrange(1 << 24), seeds(1, 3), seeds(6, 16), ()) for _ in range(count)]
