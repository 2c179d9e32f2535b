"""Values parked for a loop: which registers, in which holders, and that they come back, by emulation."""

import pytest

from mavcg.assembly.code_image import assemble_image
from mavcg.assembly.emulation import End, Machine, start_state
from mavcg.passes.asm.liveness import GENERAL, VECTORS
from mavcg.passes.asm.parking import ENOUGH, park, saved_registers
from mavcg.passes.asm.rename import SCRATCH_VECTORS

# What belongs to the caller is wanted until the function returns, unless it is saved.
CALLERS_VECTORS = frozenset(f"v{i}" for i in range(8, 16))
ALL_GENERAL = frozenset(GENERAL) | CALLERS_VECTORS


def test_values_come_back_after_a_loop_that_overwrites_them() -> None:
    parked = park(frozenset({"x0", "v0"}), ALL_GENERAL, ALL_GENERAL)
    assert len(parked.registers) == ENOUGH
    loop = [f"mov {register}, #0" for register in sorted(parked.registers)]
    lines = [*map(str, parked.before), *loop, *map(str, parked.after), "ret"]
    image = assemble_image("f:\n" + "".join(f"\t{line}\n" for line in lines))
    for seed in range(4):
        state = start_state(seed)
        outcome = Machine(image).run("f", state)
        assert outcome.end == End.RETURNED
        assert outcome.x == state.x
        changed = {f"v{i}" for i in range(32) if outcome.v[i] != state.v[i]}
        assert changed <= parked.holders


def test_two_values_share_a_holder_and_an_odd_one_has_its_own() -> None:
    some_free = ALL_GENERAL - {"x17"}
    parked = park(frozenset({"x0"}), some_free, some_free)
    assert (len(parked.registers), len(parked.holders)) == (3, 2)
    assert [instr.mnemonic for instr in parked.before] == ["fmov", "ins", "fmov"]


def test_the_platform_the_frame_the_link_and_the_stack_stay() -> None:
    live = ALL_GENERAL | {"sp"}
    accessed = frozenset(GENERAL) - {"x18", "x29", "x30"}
    parked = park(accessed, live, live)
    assert parked.registers == frozenset() and parked.before == parked.after == ()
    assert park(accessed - {"x25"}, live, live).registers == {"x25"}


def test_what_the_function_has_saved_need_not_be_parked_and_may_hold() -> None:
    live = ALL_GENERAL - {"x21", "x22", "x23", "v12"}
    accessed = frozenset({"x0", *SCRATCH_VECTORS})
    assert saved_registers(accessed | live) == {"x21", "x22", "x23", "v12"}
    parked = park(accessed, live, live)
    assert len(parked.registers) == ENOUGH - 3 and parked.holders == {"v12"}
    assert not saved_registers(frozenset({"x1"}) | ALL_GENERAL)
    assert saved_registers(frozenset()) & {"sp", "x18", "x29", "x30"} == set()


def test_only_values_that_live_across_and_are_not_touched_are_parked() -> None:
    live_in = ALL_GENERAL
    live_out = ALL_GENERAL - {"x20", "x21"}
    accessed = ALL_GENERAL - {"x20", "x21", "x22"}
    assert park(accessed, live_in, live_out).registers == {"x22"}
    assert park(accessed, live_in - {"x22"}, live_out).registers == frozenset()


@pytest.mark.parametrize("free", range(6))
def test_as_many_as_are_missing(free: int) -> None:
    live = ALL_GENERAL - {f"x{i}" for i in range(free)}
    assert len(park(frozenset(), live, live).registers) == max(0, ENOUGH - free)


def test_no_holder_no_parking() -> None:
    vectors = frozenset(SCRATCH_VECTORS)
    assert park(vectors, ALL_GENERAL, ALL_GENERAL).registers == frozenset()
    assert park(vectors - {"v31"}, ALL_GENERAL, ALL_GENERAL).holders == {"v31"}
    assert len(park(vectors - {"v31"}, ALL_GENERAL, ALL_GENERAL).registers) == 2


def test_holders_need_no_saving() -> None:
    parked = park(frozenset({"x0", *SCRATCH_VECTORS[:20]}), ALL_GENERAL, ALL_GENERAL)
    assert parked.holders and parked.holders <= set(SCRATCH_VECTORS)
    assert not parked.holders & {f"v{i}" for i in range(8, 16)}
    assert park(frozenset(VECTORS), ALL_GENERAL, ALL_GENERAL).holders == frozenset()
