"""Schedules for a core that forwards a sum early only to the multiply-accumulate that follows next."""

import random

import pytest

from mavcg.hardware.timing import Timing
from mavcg.passes.asm.analysis.dependences import Code, block_edges, code_of
from mavcg.passes.asm.isa.syntax import parse_instr
from mavcg.passes.asm.models.estimate import block_cycles
from mavcg.passes.asm.straight_tuning import block_order, chained_edges
from mavcg.passes.asm.tune import tune
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing

A53 = load_timing(load_core("cortex-a53"))
BY_TURNS = "mul v0.8h | mul v1.8h | mla v0.8h | mla v1.8h | mla v0.8h | mla v1.8h"


def _code(text: str) -> list[Code]:
    return [code_of(parse_instr(f"{line.strip()}, v16.8h, v17.8h")) for line in text.split("|")]


def _cycles(code: list[Code], order: tuple[int, ...], timing: Timing = A53) -> float:
    return block_cycles([code[i].op for i in order], timing)


def test_chains_by_turns_are_put_one_after_the_other() -> None:
    """The order is the one that dav1d's authors chose by hand for an A53 (commit fc5a3728)."""
    code = _code(BY_TURNS)
    order = block_order(code, A53)
    assert order == (0, 2, 4, 1, 3, 5)
    assert (_cycles(code, tuple(range(6))), _cycles(code, order)) == (10, 6)
    assert block_order(code, load_timing(load_core("cortex-a55"))) == (0, 1, 2, 3, 4, 5)


def test_many_chains_by_turns_are_as_good() -> None:
    chains = [f"v{n}.8h" for n in range(4)]
    code = _code(" | ".join(f"{name} {chain}" for name in ("mul", "mla", "mla") for chain in chains))
    assert _cycles(code, block_order(code, A53)) == 12


def test_chains_that_wait_for_each_other_are_left_to_the_scheduler() -> None:
    """The second product of v0 waits for v1, whose second one waits for v0."""
    lines = [
        "mul v0.8h, v16.8h, v17.8h",
        "mul v1.8h, v16.8h, v17.8h",
        "mla v0.8h, v1.8h, v17.8h",
        "mla v1.8h, v0.8h, v17.8h",
        "mla v0.8h, v1.8h, v17.8h",
    ]
    code = [code_of(parse_instr(line)) for line in lines]
    near, far = (block_edges(code, A53, adjacent) for adjacent in (True, False))
    assert chained_edges([c.op for c in code], near, far, A53) == far != near
    assert sorted(block_order(code, A53)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("seed", range(40))
def test_orders_satisfy_every_dependence_and_lose_nothing(seed: int) -> None:
    pick = random.Random(seed)
    forms = ("mul v{d}.8h", "mla v{d}.8h", "mla v{d}.8h", "add v{d}.8h")
    lines = [
        f"{pick.choice(forms).format(d=pick.randrange(4))}, v{pick.randrange(8)}.8h, v{pick.randrange(8)}.8h"
        for _ in range(pick.randrange(2, 20))
    ]
    code = [code_of(parse_instr(line)) for line in lines]
    order = block_order(code, A53)
    place = {op: at for at, op in enumerate(order)}
    edges = block_edges(code, A53)
    assert sorted(order) == list(range(len(code)))
    assert all(place[edge.source] < place[edge.target] for edge in edges)
    assert _cycles(code, order) <= _cycles(code, tuple(range(len(code))))


@pytest.mark.parametrize("chains", [1, 2, 4])
def test_loops_of_sums_take_a_cycle_for_each_product(chains: int) -> None:
    """One sum: 1 cycle a product, early. Two: one after the other. Four: alternately, late."""
    products = "".join(f"\tmla v{n}.8h, v16.8h, v17.8h\n" for _ in range(4) for n in range(chains))
    text = f"\t.text\n\t.globl f\n\t.type f, %function\nf:\n1:\n{products}\tsubs x0, x0, #1\n\tb.ne 1b\n\tret\n"
    (function,) = tune(text, A53, load_core("cortex-a53").policy).functions
    (loop,) = function.loops
    cycles = loop.cycles_before if loop.cycles_after is None else loop.cycles_after
    assert cycles == pytest.approx(4 * chains, abs=1.01)
