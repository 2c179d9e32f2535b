"""Spills around a loop: which registers, to which holders, and that they are restored, by emulation."""

import pytest

from mavcg.assembly.code_image import assemble_image
from mavcg.assembly.emulation import EmulatedCore, End, start_state
from mavcg.passes.asm.analysis.liveness import GENERAL, VECTORS
from mavcg.passes.asm.transforms.rename_registers import SCRATCH_VECTORS
from mavcg.passes.asm.transforms.vector_spill import ENOUGH, saved_registers, spill_to_vectors

# Callee-saved registers are live until the function returns, unless it has saved them.
CALLERS_VECTORS = frozenset(f"v{i}" for i in range(8, 16))
ALL_GENERAL = frozenset(GENERAL) | CALLERS_VECTORS


def test_values_come_back_after_a_loop_that_overwrites_them() -> None:
    spill = spill_to_vectors(frozenset({"x0", "v0"}), ALL_GENERAL, ALL_GENERAL)
    assert len(spill.registers) == ENOUGH
    loop = [f"mov {register}, #0" for register in sorted(spill.registers)]
    lines = [*map(str, spill.before), *loop, *map(str, spill.after), "ret"]
    image = assemble_image("f:\n" + "".join(f"\t{line}\n" for line in lines))
    for seed in range(4):
        state = start_state(seed)
        outcome = EmulatedCore(image).run("f", state)
        assert outcome.end == End.RETURNED
        assert outcome.x == state.x
        changed = {f"v{i}" for i in range(32) if outcome.v[i] != state.v[i]}
        assert changed <= spill.holders


def test_two_values_share_a_holder_and_an_odd_one_has_its_own() -> None:
    some_free = ALL_GENERAL - {"x17"}
    spill = spill_to_vectors(frozenset({"x0"}), some_free, some_free)
    assert (len(spill.registers), len(spill.holders)) == (3, 2)
    assert [instr.mnemonic for instr in spill.before] == ["fmov", "ins", "fmov"]


def test_the_platform_the_frame_the_link_and_the_stack_stay() -> None:
    live = ALL_GENERAL | {"sp"}
    accessed = frozenset(GENERAL) - {"x18", "x29", "x30"}
    spill = spill_to_vectors(accessed, live, live)
    assert spill.registers == frozenset() and spill.before == spill.after == ()
    assert spill_to_vectors(accessed - {"x25"}, live, live).registers == {"x25"}


def test_saved_registers_need_no_spill_and_may_hold_one() -> None:
    live = ALL_GENERAL - {"x21", "x22", "x23", "v12"}
    accessed = frozenset({"x0", *SCRATCH_VECTORS})
    assert saved_registers(accessed | live) == {"x21", "x22", "x23", "v12"}
    spill = spill_to_vectors(accessed, live, live)
    assert len(spill.registers) == ENOUGH - 3 and spill.holders == {"v12"}
    assert not saved_registers(frozenset({"x1"}) | ALL_GENERAL)
    assert saved_registers(frozenset()) & {"sp", "x18", "x29", "x30"} == set()


def test_only_unused_values_that_are_live_across_the_loop_are_spilled() -> None:
    live_in = ALL_GENERAL
    live_out = ALL_GENERAL - {"x20", "x21"}
    accessed = ALL_GENERAL - {"x20", "x21", "x22"}
    assert spill_to_vectors(accessed, live_in, live_out).registers == {"x22"}
    assert spill_to_vectors(accessed, live_in - {"x22"}, live_out).registers == frozenset()


@pytest.mark.parametrize("free", range(6))
def test_as_many_as_are_missing(free: int) -> None:
    live = ALL_GENERAL - {f"x{i}" for i in range(free)}
    assert len(spill_to_vectors(frozenset(), live, live).registers) == max(0, ENOUGH - free)


def test_without_a_holder_nothing_is_spilled() -> None:
    vectors = frozenset(SCRATCH_VECTORS)
    assert spill_to_vectors(vectors, ALL_GENERAL, ALL_GENERAL).registers == frozenset()
    assert spill_to_vectors(vectors - {"v31"}, ALL_GENERAL, ALL_GENERAL).holders == {"v31"}
    assert len(spill_to_vectors(vectors - {"v31"}, ALL_GENERAL, ALL_GENERAL).registers) == 2


def test_holders_need_no_saving() -> None:
    spill = spill_to_vectors(frozenset({"x0", *SCRATCH_VECTORS[:20]}), ALL_GENERAL, ALL_GENERAL)
    assert spill.holders and spill.holders <= set(SCRATCH_VECTORS)
    assert not spill.holders & {f"v{i}" for i in range(8, 16)}
    assert spill_to_vectors(frozenset(VECTORS), ALL_GENERAL, ALL_GENERAL).holders == frozenset()
