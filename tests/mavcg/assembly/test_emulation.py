"""The emulator: what instructions do by an independent reckoning, which bytes are seen, and how runs end."""

import gc
import struct
import sys
from dataclasses import replace
from functools import cache

import pytest

from mavcg.assembly.code_image import PAGE_BYTES, assemble_image
from mavcg.assembly.emulated_memory import page_bytes
from mavcg.assembly.emulation import COLLECT_EVERY, STACK_TOP, EmulatedCore, End, RunResult, State, run, start_state
from mavcg.errors import MavcgError

FUNCTIONS = {
    "store_all": "\n".join(f"str q{n}, [x0, #{16 * n}]" for n in range(32)),
    "flags": "\n".join(f"cset x{n}, {c}" for n, c in enumerate(("mi", "eq", "hs", "vs"))),
    "set_flags": "mov x0, #-1\nadds x0, x0, #1",
    "stack": "sub sp, sp, #32\nstr x1, [sp, #8]",
    "sdot": "sdot v0.4s, v1.16b, v2.4b[1]",
    "halves": "fmla v0.8h, v1.8h, v2.8h",
    "unaligned": "ldr q0, [x0]\nldr x1, [x0, #16]\nstrh w1, [x0, #24]",
    "all_loads": "ldp q0, q1, [x0], #32\nld1 { v2.4s, v3.4s }, [x0], #32\nld1r { v4.2d }, [x0], #8\n"
    "ld1 { v5.s }[1], [x0], #4\nldrb w1, [x0]",
    "lanes": "ld2 { v0.4s, v1.4s }, [x0]",
    "copy": "ldr w1, [x0]\nadd w1, w1, #1\nstr w1, [x0]\nldr w2, [x0]\nadd w2, w2, #1\nstr w2, [x0]",
    "forever": ".Lforever: b .Lforever",
    "four": "nop\nnop\nnop",
    "undefined": "nop\nudf #0",
    "breakpoint": "brk #1",
    "nowhere": "br x0",
    "into_code": "adr x1, .\nstr x0, [x1]",
    "outside": "nop\nbl memcpy",
    "pauth": "bti c\npaciasp\nautiasp",
}


@pytest.fixture(scope="module", autouse=True)
def _needs_unicorn() -> None:
    pytest.importorskip("unicorn", reason="the emulator (mavcg[check]) is not installed")


@cache
def machine() -> EmulatedCore:
    functions = "".join(f"{n}:\n{code}\n\tret\n" for n, code in FUNCTIONS.items())
    return EmulatedCore(assemble_image("\t.text\n" + functions))


def state(seed: int = 1, **x: int) -> State:
    """The start state of a seed, some registers given."""
    begin = start_state(seed)
    return replace(begin, x=tuple(x.get(f"x{n}", value) for n, value in enumerate(begin.x)))


def ran(function: str, seed: int = 1, **x: int) -> RunResult:
    return machine().run(function, state(seed, **x))


def memory(seed: int, address: int, size: int) -> bytes:
    first = address // PAGE_BYTES
    pages = b"".join(page_bytes(seed, first + n) for n in range(2))
    return pages[address % PAGE_BYTES :][:size]


def test_all_vector_registers_start_and_end_as_given() -> None:
    at = 0x5000_0003
    outcome = ran("store_all", x0=at)
    assert outcome.end == End.RETURNED and outcome.where == ""
    assert outcome.v == start_state(1).v and outcome.x[1:] == start_state(1).x[1:]
    stored = bytes(outcome.written[at + n] for n in range(512))
    assert stored == b"".join(value.to_bytes(16, "little") for value in outcome.v)
    assert len(outcome.written) == 512 and not outcome.read


@pytest.mark.parametrize("nzcv", range(16))
def test_flags_start_as_given(nzcv: int) -> None:
    outcome = machine().run("flags", replace(state(), nzcv=nzcv))
    assert outcome.x[:4] == tuple(nzcv >> bit & 1 for bit in (3, 2, 1, 0))
    assert outcome.nzcv == outcome.register("nzcv") == nzcv


def test_flags_sp_and_registers_by_name() -> None:
    assert ran("set_flags").nzcv == 0b0110
    outcome = ran("stack", x1=0x1234)
    assert outcome.sp == outcome.register("sp") == STACK_TOP - 32
    assert outcome.written[STACK_TOP - 24] == 0x34 and outcome.written[STACK_TOP - 23] == 0x12
    assert outcome.register("x1") == 0x1234
    assert outcome.register("v9") == outcome.v[9] and outcome.register("d9") == outcome.v[9] % (1 << 64)


@pytest.mark.parametrize("seed", range(4))
def test_sdot_is_what_the_manual_says(seed: int) -> None:
    before = start_state(seed)
    acc = struct.unpack("<4I", before.v[0].to_bytes(16, "little"))
    left = struct.unpack("<16b", before.v[1].to_bytes(16, "little"))
    right = struct.unpack("<16b", before.v[2].to_bytes(16, "little"))[4:8]
    sums = [(a + sum(left[4 * n + k] * right[k] for k in range(4))) % (1 << 32) for n, a in enumerate(acc)]
    assert struct.unpack("<4I", ran("sdot", seed).v[0].to_bytes(16, "little")) == tuple(sums)


def test_half_precision_is_there() -> None:
    assert ran("halves").end == End.RETURNED
    assert ran("pauth").end == End.RETURNED


@pytest.mark.parametrize(
    "base", [0, 0x1234, 0x4000_0FFB, 0x7FFF_FFFF_FFF1, 0xFFFF_0000_0000_0123, 0xFFFF_FFFF_FFFF_E001]
)
def test_any_address_has_memory_that_its_seed_makes(base: int) -> None:
    outcome = ran("unaligned", 7, x0=base)
    assert outcome.v[0].to_bytes(16, "little") == memory(7, base, 16)
    assert outcome.x[1].to_bytes(8, "little") == memory(7, base + 16, 8)
    assert outcome.read == frozenset(range(base, base + 24))
    assert outcome.written == {base + 24: outcome.x[1] & 0xFF, base + 25: outcome.x[1] >> 8 & 0xFF}


def test_loads_read_the_bytes_that_they_name_and_no_more() -> None:
    base = 0x4000_0FC1  # every one of them crosses a page somewhere near
    for at in range(base, base + 64, 7):
        assert ran("all_loads", x0=at).read == frozenset(range(at, at + 32 + 32 + 8 + 4 + 1))
        assert ran("lanes", x0=at).read == frozenset(range(at, at + 32))


def test_the_last_byte_written_counts_and_runs_do_not_see_each_other() -> None:
    at = 0x5000_0000
    was = int.from_bytes(memory(3, at, 4), "little")
    for _ in range(2):
        outcome = ran("copy", 3, x0=at)
        assert outcome.written == dict(zip(range(at, at + 4), (was + 2).to_bytes(4, "little"), strict=True))


@pytest.mark.parametrize(
    ("function", "end", "where"),
    [
        ("forever", End.NO_END, "forever+0x0"),
        ("undefined", End.FAULT, "undefined+0x4"),
        ("breakpoint", End.FAULT, "breakpoint+0x0"),
        ("nowhere", End.FAULT, "0x50000000"),
        ("into_code", End.FAULT, "into_code+0x4"),
        ("outside", End.CALL, "memcpy"),
    ],
)
def test_runs_that_do_not_return_say_where(function: str, end: End, where: str) -> None:
    outcome = ran(function, x0=0x5000_0000)
    assert (outcome.end, outcome.where) == (end, where)
    assert ran("set_flags").end == End.RETURNED  # and the machine still works


def test_the_limit_counts_instructions() -> None:
    assert machine().run("four", state(), limit=4).end == End.RETURNED
    stopped = machine().run("four", state(), limit=3)
    assert (stopped.end, stopped.where) == (End.NO_END, "four+0xc")


def test_the_end_of_memory_is_a_fault() -> None:
    assert ran("unaligned", x0=(1 << 64) - 8).end == End.FAULT


def test_emulators_of_runs_that_faulted_do_not_pile_up() -> None:
    """Each reserves a gigabyte of addresses: a file with many functions ended with "no memory available"."""
    unicorn = pytest.importorskip("unicorn")
    gc.collect()
    gc.disable()
    try:
        before = sum(isinstance(each, unicorn.Uc) for each in gc.get_objects())
        core = EmulatedCore(machine().image)
        for _ in range(2 * COLLECT_EVERY):
            assert core.run("undefined", start_state(1)).end == End.FAULT
        # One more: that of the core, which is in use while the others are collected.
        assert sum(isinstance(each, unicorn.Uc) for each in gc.get_objects()) <= before + COLLECT_EVERY + 1
    finally:
        gc.enable()


def test_one_run_is_as_many() -> None:
    assert run(machine().image, "sdot", state()) == ran("sdot")


def test_an_unknown_function_is_named() -> None:
    with pytest.raises(MavcgError, match="no function 'gone' in the code"):
        ran("gone")


def test_without_the_emulator_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "unicorn", None)
    with pytest.raises(MavcgError, match=r"mavcg\[check\]"):
        EmulatedCore(machine().image)


def test_start_states_are_mixed_and_repeat() -> None:
    states = [start_state(seed) for seed in range(60)]
    assert states == [start_state(seed) for seed in range(60)] and len(set(states)) == 60
    values = [value for one in states for value in one.x]
    assert 0.2 < sum(value <= 40 for value in values) / len(values) < 0.5
    assert 0.4 < sum(1 << 32 < value < 1 << 40 for value in values) / len(values) < 0.8
    assert any(value > 1 << 60 for value in values) and any(value % 2 for value in values if value > 40)
    near = [abs(a - b) for one in states for a in one.x[:8] for b in one.x[:8] if a != b and min(a, b) > 1 << 32]
    assert any(distance < 16 for distance in near)  # buffers that overlap
    assert {one.nzcv for one in states} == set(range(16))


def test_memory_is_mostly_moderate_numbers_with_some_of_every_other_kind() -> None:
    pages = [page_bytes(seed, page) for seed in range(20) for page in range(10)]
    floats = [value for page in pages for value in struct.unpack("<1024f", page)]
    moderate = sum(2**-8 < abs(value) < 8 for value in floats) / len(floats)
    assert 0.6 < moderate < 0.9
    assert any(value != value for value in floats) and float("inf") in floats and float("-inf") in floats
    assert any(0 < abs(value) < 2**-126 for value in floats)
    usual = [page for page in pages if all(2**-8 < abs(value) < 8 for value in struct.unpack("<1024f", page))]
    assert len(usual) > 100
    assert all(2**-150 < abs(value) < 2**150 for page in usual for value in struct.unpack("<512d", page))
