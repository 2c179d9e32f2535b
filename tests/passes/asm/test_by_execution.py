"""Machine passes checked by execution: random functions and their transformed forms leave the same behind."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import mavcg.passes.asm.tune as tune_module
from mavcg.assembly.equivalence import Comparison
from mavcg.passes.asm import loop_forms, loop_tuning
from mavcg.passes.asm.analysis import dependences, liveness
from mavcg.passes.asm.isa.syntax import Instr
from mavcg.passes.asm.schedule import software_pipeline
from mavcg.passes.asm.transforms import rename_registers as rename
from mavcg.passes.asm.transforms import split_loads as split
from mavcg.passes.asm.tune import Tuned
from tests.passes.asm import random_code
from tests.passes.asm.execution import differences, random_functions, transform
from tests.passes.asm.random_instructions import Registers, instruction

pytest.importorskip("unicorn", reason="the emulator (mavcg[check]) is not installed")

FUNCTIONS = 10  # in one text
CORES = (*("cortex-a55", "cortex-a510", "cortex-a75") * 2, "cortex-a53")  # one of them for each text
MANY_CORES = ("cortex-a55", "cortex-a510", "cortex-a75", "cortex-a55", "cortex-a53")

Failure = tuple[random_code.RandomFunction, Comparison]


def _checked(functions: Sequence[random_code.RandomFunction], core: str) -> tuple[Tuned, list[Failure]]:
    text = random_code.program_text(functions)
    names = [f"f{number}" for number in range(len(functions))]
    tuned = transform(text, core)
    differing = differences(text, tuned.text, names)
    return tuned, [(functions[names.index(comparison.function)], comparison) for comparison in differing]


def _failing(functions: Sequence[random_code.RandomFunction], core: str) -> list[Failure]:
    return _checked(functions, core)[1]


def _smallest(function: random_code.RandomFunction, core: str) -> Failure:
    """The failing function less all instructions that it fails without. One text a round: hypothesis's own shrinking
    would call the assembler for every candidate."""
    smallest, comparison = _failing([function], core)[0]
    while smaller := _failing(list(smallest.with_one_less()), core):
        smallest, comparison = smaller[0]
    return smallest, comparison


def _report(function: random_code.RandomFunction, core: str) -> str:
    function, comparison = _smallest(function, core)
    text = random_code.program_text([function])
    return f"{core}: {comparison}\n{function}\n--- before\n{text}\n--- after\n{transform(text, core).text}"


@dataclass(frozen=True)
class CrowdedLoop(random_code.RandomFunction):
    """A loop across which nearly all general registers live: set before it, stored after it, not used in it."""

    def lines(self, name: str) -> list[str]:
        dice = Random(self.shape)
        numbers = dice.sample([*range(8, 18), *range(19, 29)], 6)
        pointers = tuple(dice.sample(range(8), 3))
        vectors = tuple(dice.sample(range(32), dice.randint(6, 12)))
        registers = Registers(
            pointers,
            tuple(numbers[2:]),
            tuple(dict.fromkeys((vectors[0] % 16, *vectors[1:]))),
            sources=(numbers[0], numbers[1]),
            is_kernel=dice.random() < 0.7,
        )
        waiting = [x for x in [*range(18), *range(19, 29)] if x not in (*pointers, *numbers)]
        waiting = [x for x in waiting if dice.random() < 0.97]
        lines = [f"add x{x}, x{dice.choice(pointers)}, #{dice.randrange(4096)}" for x in waiting]
        loop = random_code.counted_loop(dice, registers, self.body, f".LBB{name}_1")
        after = [instruction(seed, registers) for seed in self.after]
        kept = [f"str x{x}, [x{pointers[0]}, #{8 * at}]" for at, x in enumerate(waiting)]
        results = [f"str q{v}, [x{pointers[0]}, #{1024 + 16 * v}]" for v in registers.vectors]
        return random_code.with_frame([*lines, *loop, *after, *kept, *results], False)


def crowded_loops() -> st.SearchStrategy[random_code.RandomFunction]:
    seed = st.integers(0, (1 << 24) - 1)
    body = st.lists(seed, min_size=6, max_size=24).map(tuple)
    return st.builds(CrowdedLoop, seed, st.just(()), body, st.lists(seed, max_size=3).map(tuple))


def _spilled(text: str) -> int:
    """Count loops around which general registers are spilled to vector registers and restored."""
    found = 0
    for remark in re.finditer(r"// mavcg:.*\n((?:\t(?:fmov\td|ins\tv).*\n)+)", text):
        first = re.match(r"\tfmov\td(\d+), x(\d+)\n", remark[1])
        found += bool(first and f"\tfmov\tx{first[2]}, d{first[1]}\n" in text[remark.end() :])
    return found


@dataclass
class _Tally:
    """Counts of what the passes did to the checked functions, so that no check passes without work."""

    functions: set[random_code.RandomFunction] = field(default_factory=set)
    loops: int = 0
    changed: Counter[str] = field(default_factory=Counter)
    texts_checked: int = 0

    def add(self, functions: Sequence[random_code.RandomFunction], tuned: Tuned) -> None:
        self.functions.update(functions)
        loops = [loop for function in tuned.functions for loop in function.loops]
        self.loops += len(loops)
        self.texts_checked += 1
        self.changed += Counter(
            pipelined=sum(loop.stages > 1 for loop in loops),
            unrolled=sum(loop.unrolled > 1 for loop in loops),
            split=sum(loop.splits > 0 for loop in loops),
            unpaired=sum(loop.unpaired > 0 for loop in loops),
            blocks=sum(function.blocks > 0 for function in tuned.functions),
            spilled=_spilled(tuned.text),
        )


def _check_many(least: int, cores: Sequence[str], kinds: st.SearchStrategy[random_code.RandomFunction]) -> _Tally:
    tally = _Tally()
    failing: list[tuple[random_code.RandomFunction, str]] = []

    @settings(max_examples=least, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
    @given(functions=st.lists(kinds, min_size=FUNCTIONS, max_size=FUNCTIONS))
    def check(functions: list[random_code.RandomFunction]) -> None:
        new = [function for function in dict.fromkeys(functions) if function not in tally.functions]
        if len(tally.functions) < least and not failing and len(new) > FUNCTIONS / 2:  # hypothesis likes to repeat
            core = cores[tally.texts_checked % len(cores)]
            tuned, wrong = _checked(new, core)
            tally.add(new, tuned)
            failing.extend((function, core) for function, _ in wrong)

    check()
    if failing:
        pytest.fail(_report(*failing[0]))
    assert len(tally.functions) >= least, f"hypothesis drew only {len(tally.functions)} different functions"
    return tally


def testrandom_functions_stay_the_same() -> None:
    tally = _check_many(16, CORES, random_code.functions())
    assert tally.loops >= 6, tally
    # What is drawn decides, not the passes alone; of 1200 functions the long test expects shares.
    assert min(tally.changed[what] for what in ("pipelined", "split", "unrolled", "blocks")) >= 1, tally.changed


@pytest.mark.long
def test_random_loops_that_leave_no_register_free_stay_the_same() -> None:
    tally = _check_many(40, ("cortex-a75", "cortex-a55"), crowded_loops())
    assert tally.changed["spilled"] >= 8, tally.changed
    assert tally.changed["pipelined"] >= 3, tally.changed


@pytest.mark.long
def test_manyrandom_functions_stay_the_same() -> None:
    tally = _check_many(1200, MANY_CORES, random_code.functions())
    assert tally.changed["pipelined"] >= 0.2 * tally.loops, tally.changed
    assert tally.changed["split"] >= 0.2 * tally.loops, tally.changed
    assert tally.changed["unrolled"] >= 0.05 * tally.loops, tally.changed


@pytest.mark.long
def test_many_random_loops_that_leave_no_register_free_stay_the_same() -> None:
    tally = _check_many(300, MANY_CORES, crowded_loops())
    assert tally.changed["spilled"] >= 60, tally.changed


# Broken passes, each with a plausible fault: the name that is replaced, and by what.


def _forgetful_renaming(
    code: Any, live_in: frozenset[str], live_out: frozenset[str], spare: frozenset[str] = frozenset()
) -> Any:
    return rename.allocate(code, frozenset(r for r in live_in if r[0] != "v"), live_out, spare)


def _no_memory_edges(code: Any, later: int) -> Iterator[Any]:
    return iter(())


def _short_drain(*what: Any) -> Any:
    """The last instruction of the epilogue is left out."""
    pipelined = software_pipeline.emit_pipeline(*what)
    parts = tuple(
        (name, instrs[:-1] if "_out" in name and instrs and instrs[-1].mnemonic != "b" else instrs)
        for name, instrs in pipelined.parts
    )
    return replace(pipelined, parts=parts)


def _only_true_dependences(ops: Any, timing: Any, looping: bool, adjacent: bool) -> Iterator[Any]:
    return (edge for edge in dependences_of_registers(ops, timing, looping, adjacent) if edge.latency)


def _wrong_lane(low: Any, high: Any) -> Any:
    return Instr("ins", (replace(low, view="v", arrangement="d", lane=0), high))


def _no_live_out(function: Any, *more: Any) -> Any:
    live = real_liveness(function, *more)
    return replace(live, at_end=tuple(live - {"v0", "v1", "v2", "v3"} for live in live.at_end))


dependences_of_registers = dependences.register_edges
real_liveness = liveness.liveness
BROKEN = {
    "a renaming that forgets what comes in": (loop_forms, "allocate", _forgetful_renaming),
    "stores and loads in any order": (dependences, "_memory_edges", _no_memory_edges),
    "an epilogue that ends early": (loop_tuning, "emit_pipeline", _short_drain),
    "registers overwritten before they are read": (dependences, "register_edges", _only_true_dependences),
    "a split that inserts into the wrong half": (split, "_insert", _wrong_lane),
    "a liveness that forgets results": (tune_module, "liveness", _no_live_out),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_pass_is_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, name, broken = BROKEN[fault]
    functions = random_functions(30)
    core = "cortex-a55" if module == split else "cortex-a510"
    monkeypatch.setattr(module, name, broken)
    assert any(_failing(functions[at : at + FUNCTIONS], core) for at in range(0, 30, FUNCTIONS))


@pytest.mark.long
def test_a_wrong_pass_is_caught_and_the_function_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(text: str, core: str) -> Tuned:
        return Tuned(text.replace("\tfmla\t", "\tfmls\t"), ())

    monkeypatch.setattr(sys.modules[__name__], "transform", wrong)
    failing = [function for function, _ in _failing(random_functions(30), "cortex-a55")]
    assert len(failing) >= 3
    smallest, comparison = _smallest(failing[0], "cortex-a55")
    assert "fmla" in "\n".join(smallest.lines("f"))
    assert len(smallest.before + smallest.body + smallest.after) <= 3
    assert comparison.differences
