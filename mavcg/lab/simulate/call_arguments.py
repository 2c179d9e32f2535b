"""Put the arguments of a call into registers and memory, from text such as "buf:4096 i:64" (AAPCS64, section 6.4)."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from mavcg.assembly.argument_states import Argument, Arguments, PassedArguments
from mavcg.assembly.code_image import PAGE_BYTES
from mavcg.errors import MavcgError

BUFFERS = 0x60_0000_0000
GUARD = 1 << 20  # unmapped bytes after each buffer, so that an access far beyond its end faults
ALIGN = 4096
# Of kernels, which are called on operands that all lie in the emulator's memory.
MOST_OPERAND_BYTES = 1 << 30
READ_AHEAD_BYTES = 256  # behind an operand, where loops that were pipelined may read
SCRATCH_SLACK = 64
KERNEL_LIMIT = 20_000_000_000  # instructions of a call


@dataclass(frozen=True)
class CallState:
    """Registers, stack and buffers at the entry of a function.

    x, v: first general and vector registers. stack: arguments on the stack. buffers: (address, contents); the emulator
    maps whole pages. places: description of each argument that is a buffer or a table of pointers, for messages.
    """

    x: tuple[int, ...]
    v: tuple[int, ...]
    stack: bytes
    buffers: tuple[tuple[int, bytes], ...]
    places: tuple[str, ...] = ()


def call_state(arguments: Arguments, seed: int = 1, contents: Sequence[bytes] = ()) -> CallState:
    """Return registers, stack and buffers at a call with these arguments; buffers are random by the seed, or zero.

    Buffers begin at multiples of 4,096 bytes; f32 lanes of random buffers have magnitudes from 2^-7 to 4 and both
    signs. contents: bytes that replace the first bytes of the buffers, in the order of the buffers.
    Raises: MavcgError for a range of integers (a call takes a single value), for more contents than buffers, and for
    contents larger than their buffer.
    """
    sizes = [argument.size for argument in arguments if argument.size for _ in range(argument.count)]
    for number, content in enumerate(contents, 1):
        if number > len(sizes):
            raise MavcgError(f"--input: {len(contents)} files, and --args has {len(sizes)} buffers; give no more")
        if len(content) > sizes[number - 1]:
            raise MavcgError(
                f"--input: file {number} holds {len(content)} bytes, its buffer {sizes[number - 1]}; "
                "give a larger buffer"
            )
    pick = random.Random(f"call {seed}")
    passed = PassedArguments([0] * 8, [0] * 8)
    buffers: list[tuple[int, bytes]] = []
    places: list[str] = []
    at, left = BUFFERS, list(contents)
    for number, argument in enumerate(arguments, 1):
        if argument.kind in ("f", "d"):
            passed.add_real(argument)
        elif argument.kind == "i":
            if argument.low != argument.high:
                raise MavcgError(
                    f"--args: argument {number} is a range of integers; a simulated call takes one: give i:N"
                )
            passed.add_word(argument.low)
        else:
            value, at = _buffers(argument, at, pick, buffers, left)
            passed.add_word(value)
            places.append(f"argument {number}, {argument.bytes} bytes at {value:#x}")
    return CallState(tuple(passed.x), tuple(passed.v), passed.stack, tuple(buffers), tuple(places))


def _buffers(
    argument: Argument, at: int, pick: random.Random, buffers: list[tuple[int, bytes]], unused_contents: list[bytes]
) -> tuple[int, int]:
    """Append an argument's buffers to `buffers`, and return (the argument's value, the next free address).

    at: address of the first of its buffers. unused_contents: contents for the next buffers; used entries are removed.
    """

    def put(content: bytes) -> int:
        nonlocal at
        address = at
        buffers.append((address, content))
        at = -(-(address + len(content)) // ALIGN) * ALIGN + GUARD
        return address

    contents = [
        bytes(argument.size) if argument.zero else moderate_lanes(pick, argument.size) for _ in range(argument.count)
    ]
    given = [unused_contents.pop(0) for _ in range(min(len(unused_contents), argument.count))]
    for number, content in enumerate(given):
        contents[number] = content + contents[number][len(content) :]
    if argument.kind == "buf":
        return put(contents[0]) + argument.offset, at
    first = [put(content) + argument.offset for content in contents]
    return put(b"".join(value.to_bytes(8, "little") for value in first)), at


def moderate_lanes(pick: random.Random, size: int) -> bytes:
    """Return random bytes whose f32 lanes have magnitudes from 2^-7 to 4."""
    count = -(-size // 4) * 4
    lanes = int.from_bytes(pick.randbytes(count), "little")
    keep = int.from_bytes(b"\xff\xff\xff\xbf" * (count // 4), "little")
    exponent = int.from_bytes(b"\x00\x00\x00\x3c" * (count // 4), "little")
    return (lanes & keep | exponent).to_bytes(count, "little")[:size]


def check_operand_bytes(size: int) -> None:
    """Raise MavcgError if operands of this many bytes are too large for the emulator."""
    if size > MOST_OPERAND_BYTES:
        raise MavcgError(f"simulate: {size} bytes of operands; at most {MOST_OPERAND_BYTES} can be simulated")


def page_range(address: int, size: int) -> tuple[int, int]:
    """Return (address, size) of the whole pages that contain `size` bytes at `address`."""
    first = address // PAGE_BYTES * PAGE_BYTES
    return first, -(-(address + size - first) // PAGE_BYTES) * PAGE_BYTES
