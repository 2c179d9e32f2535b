"""Where described arguments are when a function begins: registers, then the stack, and what pointers point to."""

import struct

from mavcg.assembly.argument_states import described_state, parse_arguments
from mavcg.assembly.emulation import STACK_TOP, State


def state(words: str, seed: int = 1) -> State:
    (arguments,) = parse_arguments([f"f: {words}"])["f"]
    return described_state(seed, arguments)


def memory(begin: State, address: int, size: int) -> bytes:
    (found,) = [data[address - at :][:size] for at, data in begin.given if at <= address < at + len(data)]
    return found


def test_integers_and_floats_count_their_registers_apart() -> None:
    begin = state("i:7 f:1.5 i:-1 d:0.25 i:0x10")
    assert begin.x[:3] == (7, (1 << 64) - 1, 16)
    assert struct.pack("<Q", begin.v[0]) == struct.pack("<fxxxx", 1.5)
    assert struct.pack("<Q", begin.v[1]) == struct.pack("<d", 0.25)


def test_the_ninth_and_later_are_on_the_stack() -> None:
    begin = state(" ".join(f"i:{n}" for n in range(10)) + " " + " ".join(f"f:{n}" for n in range(9)))
    assert begin.x[:8] == tuple(range(8))
    assert struct.unpack("<QQf4x", memory(begin, STACK_TOP, 24)) == (8, 9, 8.0)


def test_ranges_differ_by_seed_and_repeat() -> None:
    values = [state("i:3..9", seed).x[0] for seed in range(200)]
    assert set(values) == set(range(3, 10)) and values == [state("i:3..9", seed).x[0] for seed in range(200)]
    assert {state("i:8..63/8", seed).x[0] for seed in range(200)} == set(range(8, 63, 8))


def test_a_table_points_to_buffers_that_do_not_overlap() -> None:
    begin = state("ptrs:8x100")
    pointers = struct.unpack("<8Q", memory(begin, begin.x[0], 64))
    assert all(b - a >= 100 for a, b in zip(pointers, pointers[1:], strict=False))
    assert all(len(memory(begin, pointer, 100)) == 100 for pointer in pointers)


def test_buffers_hold_the_seeds_bytes_or_zeroes() -> None:
    begin, other = state("buf:256 buf:256=0"), state("buf:256 buf:256=0", 2)
    assert memory(begin, begin.x[1], 256) == bytes(256)
    assert any(memory(begin, begin.x[0], 256)) and memory(begin, begin.x[0], 256) != memory(other, other.x[0], 256)
