"""Mutants of kernels and of random functions, which leave something else behind, are caught by execution."""

import re
from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest

from mavcg.assembly.code_image import assemble_image
from mavcg.assembly.equivalence import RunLimits, compare
from tests.passes.asm import random_code
from tests.passes.asm.execution import differences, random_functions, start, transform
from tests.passes.asm.mutants import (
    KERNELS,
    MUTATIONS,
    Mutant,
    lines_of,
    loads_over_stores,
    moved_stores,
    wrong_immediates,
)

pytest.importorskip("unicorn", reason="the emulator (mavcg[check]) is not installed")

MUTANT_SEEDS = range(100, 110)


def _function(name: str, lines: Sequence[str]) -> str:
    return random_code.function_text(name, [line.replace(".Lloop", f".L{name}_loop") for line in lines])


def _escaped(kernel: str, mutants: Sequence[Mutant]) -> list[str]:
    """Mutants that the check takes for the kernel itself."""
    before = assemble_image(_function("kernel", lines_of(kernel)), kernel)
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
    mutants = [mutant for mutate in MUTATIONS for mutant in mutate(lines_of(kernel))]
    assert _escaped(kernel, mutants) == []


def test_every_kind_of_mutant_is_made_of_several_kernels() -> None:
    kernels = Counter(kind for name in KERNELS for kind in {m.kind for f in MUTATIONS for m in f(lines_of(name))})
    assert kernels.pop("load over store") >= 1
    assert kernels.pop("moved store") >= 2
    assert len(kernels) == len(MUTATIONS) - 2 and min(kernels.values()) == len(KERNELS)


@pytest.mark.sample(3)
@pytest.mark.parametrize("core", ["cortex-a53", "cortex-a55", "cortex-a75", "cortex-a510"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_and_its_transformed_form_agree(kernel: str, core: str) -> None:
    text = _function("kernel", lines_of(kernel))
    assert differences(text, transform(text, core).text, ["kernel"]) == []


@pytest.mark.long
def test_mutants_ofrandom_functions_are_caught() -> None:
    """Dead code has mutants that change nothing; of every kind, most others are caught."""
    functions = [f.lines(f"f{n}") for n, f in enumerate(random_functions(20))]
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
