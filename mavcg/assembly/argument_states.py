"""Start states for the check by execution, from a description of a function's arguments.

    FUNCTION: buf:4096 ptrs:8x4096 i:64 i:8..64/8 f:1.5 d:0.5

One word per argument, in the order of the prototype: a pointer to a buffer of that many bytes, a pointer to a table of
pointers to buffers, an integer or a range of integers with a step, a float, a double. `=0` after a buffer fills it with
zeros; `buf:BYTES+OFFSET` points OFFSET bytes into the buffer, whose start is a multiple of 64.
"""

import math
import random
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mavcg.assembly.code_image import PAGE_BYTES
from mavcg.assembly.emulated_memory import random_lanes
from mavcg.assembly.emulation import STACK_TOP, State, start_state
from mavcg.errors import MavcgError

DESCRIBED_LIMIT = 200_000  # instructions per run; more than by default, because a described count may be large
_BYTES_LIMIT = 4 << 20
_TABLE_LIMIT = 4096
_ARGUMENT_LIMIT = 64
_BASE, _SPACING = 0x60_0000_0000, 1 << 24  # addresses of buffers; an access beyond one does not reach the next
_ALIGN = 64
_REGISTERS = 8  # of arguments, of each kind
_MASK64 = (1 << 64) - 1
_POINTERS, _NUMBERS = "buf:BYTES[+OFFSET], ptrs:COUNTxBYTES, i:NUMBER", "f:NUMBER (float) or d:NUMBER (double)"
_KINDS, _KINDS_OF_ONE_CALL = f"{_POINTERS}, i:LOW..HIGH/STEP, {_NUMBERS}", f"{_POINTERS}, {_NUMBERS}"


@dataclass(frozen=True)
class Argument:
    """The description of one argument. kind: "buf", "ptrs", "i", "f" or "d".

    size: of a buffer, in bytes. count: number of pointers in a table. low, high, step: range of an integer. number:
    value of a float or double. zero: True if buffers are filled with zeros. offset: from the buffer's start to the
    address that is passed, in bytes.
    """

    kind: str
    size: int = 0
    count: int = 1
    low: int = 0
    high: int = 0
    step: int = 1
    number: float = 0.0
    zero: bool = False
    offset: int = 0

    @property
    def bytes(self) -> int:
        return self.count * -(-self.size // _ALIGN) * _ALIGN + (8 * self.count if self.kind == "ptrs" else 0)


Arguments = tuple[Argument, ...]


def parse_arguments(texts: Sequence[str]) -> dict[str, tuple[Arguments, ...]]:
    """Parse `--args` texts; return function -> its descriptions. `;` separates functions within a text.

    Raises: MavcgError for text that is not in the grammar.
    """
    descriptions: dict[str, tuple[Arguments, ...]] = {}
    for text in texts:
        for part in text.split(";"):
            name, colon, words = (piece.strip() for piece in part.partition(":"))
            if not colon or not name or re.search(r"\s", name) or re.match(r"\s*(?:buf|ptrs|i|f|d):\S", part):
                raise MavcgError(f"--args {text!r}: begins with no function; write 'FUNCTION: buf:4096 i:64'")
            arguments = parse_call(words, text, _BYTES_LIMIT, "a check")
            if not arguments:
                raise MavcgError(f"--args {text!r}: has no arguments for {name}; give {_KINDS}")
            descriptions[name] = (*descriptions.get(name, ()), arguments)
    return descriptions


def parse_call(call: str, text: str, bytes_limit: int, user: str, with_ranges: bool = True) -> Arguments:
    """Parse the arguments of one call, such as "buf:4096 i:64".

    text: the option's whole value, and user: what uses the arguments, such as "a check"; both for errors. bytes_limit:
    of all buffers. with_ranges: True if errors offer ranges of integers.
    Raises: MavcgError for text that is not in the grammar, and for too many arguments or bytes.
    """
    kinds = _KINDS if with_ranges else _KINDS_OF_ONE_CALL
    arguments = tuple(_argument(word, text, kinds) for word in call.split())
    if len(arguments) > _ARGUMENT_LIMIT:
        raise MavcgError(f"--args {text!r}: more than {_ARGUMENT_LIMIT} arguments; give fewer")
    if (total := sum(argument.bytes for argument in arguments)) > bytes_limit:
        wrong = f"{total} bytes of buffers, and {user} takes {bytes_limit}"
        raise MavcgError(f"--args {text!r}: {wrong}; give smaller ones")
    return arguments


def _argument(word: str, text: str, kinds: str) -> Argument:
    kind, _, value = word.partition(":")
    value, _, filling = value.partition("=")
    wrong = MavcgError(
        f"--args {text!r}: {word!r} is not an argument; give {kinds}; =0 behind a buffer fills it with 0"
    )
    if filling != "" and (filling != "0" or kind not in ("buf", "ptrs")) or word.endswith("="):
        raise wrong
    try:
        if kind == "buf":
            size, plus, offset = value.partition("+")
            skipped = int(offset, 0) if plus else 0
            return _with_size(Argument("buf", size=int(size, 0), zero=bool(filling), offset=skipped), word, text)
        if kind == "ptrs":
            count, times, size = value.partition("x") if not value.startswith("0x") else ("", "", "")
            if not times:
                raise wrong
            return _with_size(Argument("ptrs", size=int(size, 0), count=int(count), zero=bool(filling)), word, text)
        if kind == "i":
            bounds, slash, by = value.partition("/")
            low, dots, high = bounds.partition("..")
            first, last, step = int(low, 0), int(high if dots else low, 0), int(by, 0) if slash else 1
            if not -(1 << 63) <= first <= last < 1 << 64 or step < 1:
                raise MavcgError(f"--args {text!r}: {word!r}: not within 64 bits, or from more to less; correct it")
            return Argument("i", low=first, high=last, step=step)
        if kind in ("f", "d"):
            number = float(value)
            if kind == "f" and math.isfinite(number):
                struct.pack("<f", number)
            return Argument(kind, number=number)
    except (ValueError, OverflowError):
        raise wrong from None
    raise wrong


def _with_size(argument: Argument, word: str, text: str) -> Argument:
    if not 0 <= argument.offset < max(argument.size, 1):
        wrong = f"points past the buffer's {argument.size} bytes"
        raise MavcgError(f"--args {text!r}: {word!r}: {wrong}; give a smaller offset")
    if argument.size < 1 or not 1 <= argument.count <= _TABLE_LIMIT:
        raise MavcgError(f"--args {text!r}: {word!r}: needs 1 byte or more, and a table 1 to {_TABLE_LIMIT} pointers")
    return argument


@dataclass
class PassedArguments:
    """Registers and stack with a call's arguments: x0 to x7, v0 to v7, then the stack (AAPCS64, stages B and C).

    x, v: registers, of which arguments replace the first ones.
    """

    x: list[int]
    v: list[int]
    stack: bytes = b""
    general: int = 0  # registers in use
    vector: int = 0

    def add_real(self, argument: Argument) -> None:
        """Pass a number in f32 or f64."""
        data = struct.pack(f"<{argument.kind}", argument.number)
        if self.vector < _REGISTERS:
            self.v[self.vector] = int.from_bytes(data, "little")
            self.vector += 1
        else:
            self.stack += data.ljust(8, b"\0")

    def add_word(self, value: int) -> None:
        """Pass an integer or a pointer, of which 64 bits count."""
        value &= _MASK64
        if self.general < _REGISTERS:
            self.x[self.general] = value
            self.general += 1
        else:
            self.stack += value.to_bytes(8, "little")


def described_state(seed: int, arguments: Arguments) -> State:
    """Return a function's start state with the described arguments; seed decides all else, as in start_state."""
    state = start_state(seed)
    pick = random.Random(f"arguments {seed}")
    passed = PassedArguments(list(state.x), list(state.v))
    given: list[tuple[int, bytes]] = []
    for number, argument in enumerate(arguments):
        if argument.kind in ("f", "d"):
            passed.add_real(argument)
        elif argument.kind == "i":
            steps = (argument.high - argument.low) // argument.step
            passed.add_word(argument.low + argument.step * pick.randint(0, steps))
        else:
            value, contents = _buffers(argument, _BASE + number * _SPACING, pick)
            passed.add_word(value + argument.offset)
            given += contents
    if passed.stack:
        given.append((STACK_TOP, passed.stack))
    return replace(state, x=tuple(passed.x), v=tuple(passed.v), given=tuple(given))


def _buffers(argument: Argument, base: int, pick: random.Random) -> tuple[int, list[tuple[int, bytes]]]:
    """Return the pointer to a buffer or table, and the memory contents (address, bytes), a table's buffers included."""
    step = -(-argument.size // _ALIGN) * _ALIGN
    content = b"".join(bytes(step) if argument.zero else random_lanes(pick, step) for _ in range(argument.count))
    if argument.kind == "buf":
        return base, [(base, content)]
    first = base + -(-8 * argument.count // PAGE_BYTES) * PAGE_BYTES
    table = b"".join((first + n * step).to_bytes(8, "little") for n in range(argument.count))
    return base, [(base, table), (first, content)]
