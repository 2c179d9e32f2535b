"""Machine passes checked by execution: random functions and their transformed forms leave the same behind; and mutants,
which do not, are caught."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import mavcg.passes.asm.tune as tune_module
from mavcg.assembly.code_image import assemble_image
from mavcg.assembly.emulation import State, start_state
from mavcg.assembly.equivalence import Comparison, RunLimits, compare
from mavcg.hardware.core import LoadPolicy
from mavcg.hardware.timing import Timing
from mavcg.passes.asm import loop_forms, loop_tuning
from mavcg.passes.asm.analysis import dependences, liveness
from mavcg.passes.asm.isa.syntax import Instr
from mavcg.passes.asm.loop_schedule import SchedulingEffort
from mavcg.passes.asm.schedule import software_pipeline
from mavcg.passes.asm.transforms import rename_registers as rename
from mavcg.passes.asm.transforms import split_loads as split
from mavcg.passes.asm.tune import Tuned, tune
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing
from tests.passes.asm import random_code

pytest.importorskip("unicorn", reason="the emulator (mavcg[check]) is not installed")

SEEDS = range(4)
FUNCTIONS = 10  # in one text
CORES = (*("cortex-a55", "cortex-a510", "cortex-a75") * 2, "cortex-a53")  # one of them for each text
MANY_CORES = ("cortex-a55", "cortex-a510", "cortex-a75", "cortex-a55", "cortex-a53")


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
        registers = random_code.Registers(
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
        after = [random_code.instruction(seed, registers) for seed in self.after]
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


def test_random_functions_stay_the_same() -> None:
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
def test_many_random_functions_stay_the_same() -> None:
    tally = _check_many(1200, MANY_CORES, random_code.functions())
    assert tally.changed["pipelined"] >= 0.2 * tally.loops, tally.changed
    assert tally.changed["split"] >= 0.2 * tally.loops, tally.changed
    assert tally.changed["unrolled"] >= 0.05 * tally.loops, tally.changed


@pytest.mark.long
def test_many_random_loops_that_leave_no_register_free_stay_the_same() -> None:
    tally = _check_many(300, MANY_CORES, crowded_loops())
    assert tally.changed["spilled"] >= 60, tally.changed


def _random_functions(count: int) -> list[random_code.RandomFunction]:
    dice = Random("functions to be mutated")

    def seeds(least: int, most: int) -> tuple[int, ...]:
        return tuple(dice.randrange(1 << 24) for _ in range(dice.randint(least, most)))

    return [random_code.RandomFunction(dice.randrange(1 << 24), seeds(1, 3), seeds(6, 16), ()) for _ in range(count)]


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
    functions = _random_functions(30)
    core = "cortex-a55" if module == split else "cortex-a510"
    monkeypatch.setattr(module, name, broken)
    assert any(_failing(functions[at : at + FUNCTIONS], core) for at in range(0, 30, FUNCTIONS))


@pytest.mark.long
def test_a_wrong_pass_is_caught_and_the_function_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(text: str, core: str) -> Tuned:
        return Tuned(text.replace("\tfmla\t", "\tfmls\t"), ())

    monkeypatch.setattr(sys.modules[__name__], "transform", wrong)
    failing = [function for function, _ in _failing(_random_functions(30), "cortex-a55")]
    assert len(failing) >= 3
    smallest, comparison = _smallest(failing[0], "cortex-a55")
    assert "fmla" in "\n".join(smallest.lines("f"))
    assert len(smallest.before + smallest.body + smallest.after) <= 3
    assert comparison.differences


# Mutants. Each kernel is written so that every instruction, operand and immediate shows in what it leaves behind.

KERNELS = {
    "axpy": """
        mov x3, #5
        ldr q16, [x4]
        ldr d18, [x4, #24]
    .Lloop:
        ldr q0, [x1], #16
        ldr q1, [x2, #32]
        fmla v1.4s, v0.4s, v16.s[3]
        fmla v1.4s, v1.4s, v18.s[1]
        str q1, [x2], #16
        subs x3, x3, #1
        b.ne .Lloop
        str x1, [x2, #64]
        str q18, [x2, #96]
        ret""",
    "dot": """
        mov x4, #48
        mov x5, #0
        movi v4.4s, #9
        movi v5.4s, #3
    .Lloop:
        ldp q0, q1, [x0], #32
        ld1 { v2.16b }, [x1]
        add x1, x1, #8
        ldr d3, [x2, x5]
        sdot v4.4s, v0.16b, v2.4b[1]
        sdot v5.4s, v1.16b, v3.4b[0]
        add x5, x5, #16
        cmp x5, x4
        b.lo .Lloop
        stp q4, q5, [x2, #-32]
        ret""",
    "alias": """
        add x1, x0, #16
        mov w2, #3
    .Lloop:
        ldr q0, [x0, #16]
        str d8, [x0, #24]
        ldr q2, [x1, #8]
        fadd v0.4s, v0.4s, v2.4s
        str q0, [x1], #16
        add x0, x0, #8
        sub w2, w2, #1
        cbnz w2, .Lloop
        mov x3, v2.d[1]
        str x3, [x0, #8]
        ret""",
    "flags": """
        stp x19, x20, [sp, #-32]!
        stp d9, d10, [sp, #16]
        ldp x19, x20, [x0]
        ldp x8, x9, [x1]
        ldr d9, [x0, #8]
        ldr d10, [x1, #24]
        adds x19, x19, x8
        adc x20, x20, x9
        cset w10, hs
        cmp x8, x9
        csel x11, x19, x20, gt
        ldr q3, [x0, #32]
        ext v3.16b, v3.16b, v9.16b, #4
        mov v3.s[1], v10.s[0]
        umov w12, v3.b[5]
        madd x11, x12, x8, x11
        stp x19, x20, [x0]
        stp x10, x11, [x1, #32]
        str q3, [x1, #64]
        ldp d9, d10, [sp, #16]
        ldp x19, x20, [sp], #32
        ret""",
}


@dataclass(frozen=True)
class Mutant:
    kind: str
    lines: tuple[str, ...]
    what: str


def _lines(kernel: str) -> list[str]:
    return [line.strip() for line in KERNELS[kernel].strip().splitlines()]


def _code(lines: Sequence[str]) -> list[int]:
    return [at for at, line in enumerate(lines) if line != "ret" and not line.endswith(":")]


def _with(lines: Sequence[str], at: int, line: str) -> tuple[str, ...]:
    return (*lines[:at], line, *lines[at + 1 :])


def _is_frame(line: str) -> bool:
    return "[sp" in line or " sp, sp" in line


def wrong_registers(lines: Sequence[str]) -> Iterator[Mutant]:
    """Each register operand of each instruction becomes one that the instruction does not name."""
    for at in _code(lines):
        if _is_frame(lines[at]) or lines[at].count(", v") and "{ v" in lines[at]:  # a list has consecutive registers
            continue
        for found in re.finditer(r"\b([xwvqdsh])(\d+)\b", lines[at]):
            used = {int(name) for name in re.findall(r"\b[xwvqdsh](\d+)\b", lines[at])}
            other = next(n for n in (7, 6, 5, 4, 3, 2) if n not in used)
            line = f"{lines[at][: found.start()]}{found[1]}{other}{lines[at][found.end() :]}"
            yield Mutant("wrong register", _with(lines, at, line), line)


def dropped_instructions(lines: Sequence[str]) -> Iterator[Mutant]:
    for at in _code(lines):
        yield Mutant("dropped instruction", (*lines[:at], *lines[at + 1 :]), lines[at])


def wrong_immediates(lines: Sequence[str]) -> Iterator[Mutant]:
    """Each immediate and each lane becomes another one that can be encoded."""
    for at in _code(lines):
        if _is_frame(lines[at]):
            continue
        for found in re.finditer(r"#(-?\d+)|(?<=[a-z])\[(\d+)\]", lines[at]):
            larger = 16 if "[" in lines[at] or "x5, x5" in lines[at] else 1
            changed = f"[{int(found[2]) ^ 1}]" if found[2] else f"#{int(found[1]) + larger}"
            line = lines[at][: found.start()] + changed + lines[at][found.end() :]
            yield Mutant("wrong immediate", _with(lines, at, line), line)


def _is_load(line: str) -> bool:
    return line.startswith("ld")


def _is_store(line: str) -> bool:
    return line.startswith("st")


def _written(line: str) -> set[str]:
    """Registers that the line writes; all operands of a load's list, and moved pointers."""
    names = re.findall(r"\b[xwvqdsh](\d+)\b", line)
    if not names or line.startswith(("cmp", "cb", "b.")):
        return set()
    bank = "x" if re.match(r"\S+ [xw]", line) else "v"
    written = set() if _is_store(line) else {bank + names[0]}
    if line.startswith("ldp"):
        written.add(bank + names[1])
    pointer = re.search(r"\[x(\d+)(?:\], [#x]|.*\]!)", line)
    return written | ({f"x{pointer[1]}"} if pointer else set())


def _named(line: str) -> set[str]:
    return {("x" if k in "xw" else "v") + n for k, n in re.findall(r"\b([xwvqdshb])(\d+)\b", line)}


def swapped_dependences(lines: Sequence[str]) -> Iterator[Mutant]:
    """Neighbours of which one writes a register that the other names, swapped."""
    for at in _code(lines)[:-1]:
        first, second = lines[at], lines[at + 1]
        if second.endswith(":") or _is_frame(first) or second == "ret" or second.startswith(("b.", "cb")):
            continue
        if _written(first) & _named(second) or _written(second) & _named(first):
            yield Mutant("swapped dependence", (*lines[:at], second, first, *lines[at + 2 :]), f"{first} | {second}")


def loads_over_stores(lines: Sequence[str]) -> Iterator[Mutant]:
    """A load goes before the store in front of it; "alias" makes these two overlap."""
    for at in _code(lines)[:-1]:
        first, second = lines[at], lines[at + 1]
        if _is_store(first) and _is_load(second) and not _is_frame(first + second):
            yield Mutant("load over store", (*lines[:at], second, first, *lines[at + 2 :]), second)


def moved_stores(lines: Sequence[str]) -> Iterator[Mutant]:
    """A store of the loop goes to the loop's start, and behind the loop."""
    labels = [at for at, line in enumerate(lines) if line.endswith(":")]
    branches = [at for at, line in enumerate(lines) if line.endswith("Lloop")]
    for start, end in zip(labels, branches, strict=True):
        for at in range(start, end):
            if _is_store(lines[at]):
                rest = [*lines[:at], *lines[at + 1 :]]
                yield Mutant("moved store", (*rest[: start + 1], lines[at], *rest[start + 1 :]), lines[at])
                yield Mutant("moved store", (*rest[:end], lines[at], *rest[end:]), lines[at])


def extra_reads(lines: Sequence[str]) -> Iterator[Mutant]:
    """A load whose result nobody needs, of bytes that the function does not read."""
    for load in ("ldr q31, [x0, #1024]", "ldr xzr, [x1, #4096]", "ldrb wzr, [x0, #700]"):
        yield Mutant("extra read", (*lines[:-1], load, "ret"), load)


def unsaved_registers(lines: Sequence[str]) -> Iterator[Mutant]:
    """Preserved registers are written, and nothing restores them."""
    for register in ("x19", "x28", "x29"):
        yield Mutant("unsaved register", (*lines[:-1], f"mov {register}, #1", "ret"), register)
    for vector in ("v8", "v15"):
        yield Mutant("unsaved register", (*lines[:-1], f"movi {vector}.4s, #77", "ret"), vector)


MUTATIONS: tuple[Callable[[Sequence[str]], Iterator[Mutant]], ...] = (
    wrong_registers,
    dropped_instructions,
    wrong_immediates,
    swapped_dependences,
    loads_over_stores,
    moved_stores,
    extra_reads,
    unsaved_registers,
)
MUTANT_SEEDS = range(100, 110)


def _function(name: str, lines: Sequence[str]) -> str:
    return random_code.function_text(name, [line.replace(".Lloop", f".L{name}_loop") for line in lines])


def _escaped(kernel: str, mutants: Sequence[Mutant]) -> list[str]:
    """Mutants that the check takes for the kernel itself."""
    before = assemble_image(_function("kernel", _lines(kernel)), kernel)
    after = assemble_image("".join(_function(f"m{n}", m.lines) for n, m in enumerate(mutants)), f"mutants of {kernel}")
    escaped = []
    for number, mutant in enumerate(mutants):
        for seeds in (MUTANT_SEEDS[:1], MUTANT_SEEDS[1:]):  # most show with the first
            compared = compare(
                before, after, "kernel", seeds, limits=RunLimits(1000), renamed=f"m{number}", start=start
            )
            assert compared.agreed + len(compared.differences) > 0, "the kernel itself never returned"
            if compared.differences:
                break
        else:
            escaped.append(f"{mutant.kind}: {mutant.what}")
    return escaped


@pytest.mark.sample(1)
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_check_catches_every_mutant(kernel: str) -> None:
    mutants = [mutant for mutate in MUTATIONS for mutant in mutate(_lines(kernel))]
    assert _escaped(kernel, mutants) == []


def test_every_kind_of_mutant_is_made_of_several_kernels() -> None:
    kernels = Counter(kind for name in KERNELS for kind in {m.kind for f in MUTATIONS for m in f(_lines(name))})
    assert kernels.pop("load over store") >= 1
    assert kernels.pop("moved store") >= 2
    assert len(kernels) == len(MUTATIONS) - 2 and min(kernels.values()) == len(KERNELS)


@pytest.mark.sample(3)
@pytest.mark.parametrize("core", ["cortex-a53", "cortex-a55", "cortex-a75", "cortex-a510"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_and_its_transformed_form_agree(kernel: str, core: str) -> None:
    text = _function("kernel", _lines(kernel))
    assert differences(text, transform(text, core).text, ["kernel"]) == []


@pytest.mark.long
def test_mutants_of_random_functions_are_caught() -> None:
    """Dead code has mutants that change nothing; of every kind, most others are caught."""
    functions = [f.lines(f"f{n}") for n, f in enumerate(_random_functions(20))]
    dice = Random("which mutants")
    mutants = [
        (number, dice.choice(made))
        for number, lines in enumerate(functions)
        for mutate in MUTATIONS
        if mutate not in (loads_over_stores, moved_stores, wrong_immediates)
        if (made := list(mutate(lines)))
    ]
    before = assemble_image("".join(random_code.function_text(f"f{n}", f) for n, f in enumerate(functions)))
    texts = [
        (f"m{number}", re.sub(r"\.LBB", f".LBB{number}_", "\n".join(m.lines)).split("\n"))
        for number, (_, m) in enumerate(mutants)
    ]
    after = assemble_image("".join(random_code.function_text(name, lines) for name, lines in texts))
    caught: Counter[str] = Counter()
    for number, (function, mutant) in enumerate(mutants):
        caught[mutant.kind] += any(
            compare(
                before, after, f"f{function}", [seed], limits=RunLimits(1000), renamed=f"m{number}", start=start
            ).differences
            for seed in MUTANT_SEEDS[:4]
        )
    total = Counter(mutant.kind for _, mutant in mutants)
    assert len(total) == 5
    assert {kind: f"{caught[kind]} of {total[kind]}" for kind in total if caught[kind] < total[kind] / 2} == {}
