"""A loop that is timed, and its text as a function.

A loop is a function of the C interface `void loop(uint64_t iterations, void *memory, uint64_t parameter)`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mavcg.errors import MavcgError

# Where x1 points to. SCRATCH: zeroes, all in level 1. WALK: words that hold the first addresses of WALKS walks through
# memory; each node begins with the address of the next.
SCRATCH, WALK = "scratch", "walk"
WALKS = 16
SCRATCH_BYTES = 4096
ZEROES, ONES, DOUBLES = "zeroes", "ones", "doubles"
_VALUES = {
    ZEROES: ("#0", "movi v{n}.4s, #0"),
    ONES: ("#1", "fmov v{n}.4s, #1.0"),
    DOUBLES: ("#1", "fmov v{n}.2d, #1.0"),
}
_CONSTANTS = range(2, 6)  # x2 to x5 are never written, nor v0 to v5
CONSTANT_VECTORS = tuple(f"v{n}" for n in range(6))
FREE_GENERAL = tuple(f"x{n}" for n in range(6, 18))
FREE_VECTORS = tuple(f"v{n}" for n in range(16, 32))


@dataclass(frozen=True)
class Walk:
    """Memory that a loop walks through, node by node.

    bytes: of all nodes. node_bytes: of each. run: number of nodes that follow one another in memory; then the walk
    jumps. cold: True if the caches are not to have the nodes before.
    """

    bytes: int
    node_bytes: int = 64
    run: int = 1
    cold: bool = False


@dataclass(frozen=True)
class TimedLoop:
    """A loop that is timed.

    name: what it measures. body: instructions of one iteration, without the counter. bodies: by how much its cycles are
    divided, such as the number of equal instructions. values: of all registers at the begin, for a loop without a walk.
    setup: instructions before the loop; x5 holds `parameter`. walk: the memory that x1 leads to; None for SCRATCH_BYTES
    of zeroes. iterations: of a call whose cycles count. warm: iterations before, whose cycles do not count. result: the
    register that is returned.
    """

    name: str
    body: tuple[str, ...]
    bodies: int = 1
    values: str = ONES
    setup: tuple[str, ...] = ()
    walk: Walk | None = None
    iterations: int = 24
    warm: int = 4
    parameter: int = 0


class OutOfTime(MavcgError):
    """Raised if the time for loops is over before all of them were timed."""


class LoopTimer(Protocol):
    """Runs loops. A time is in cycles of the core for one of a loop's `bodies`."""

    def cycles(self, loops: Sequence[TimedLoop]) -> Mapping[str, float]:
        """Return the cycles of each loop's body, by its name. Raises: OutOfTime."""


def function_text(loop: TimedLoop, symbol: str) -> str:
    """Return the assembly of a loop as a function."""
    start = ["mov x5, x2"]
    if loop.walk is None:
        number, vector = _VALUES[loop.values]
        start += [f"mov x{n}, {number}" for n in (*_CONSTANTS, *range(6, 18))]
        start += [vector.format(n=n) for n in (*range(6), *range(16, 32))]
    lines = [*start, *loop.setup, "cmp x1, x1", "2:", *loop.body, "sub x0, x0, #1", "cbnz x0, 2b", "ret"]
    body = "\n".join(f"\t{line}" for line in lines)
    return f"\t.globl {symbol}\n\t.type {symbol}, %function\n\t.p2align 6\n{symbol}:\n{body}\n"


@dataclass(frozen=True)
class LoopProgram:
    """The text of many loops: a function for each text that differs. symbols: of each loop, by its name."""

    text: str
    symbols: Mapping[str, str]


def loop_program(loops: Sequence[TimedLoop]) -> LoopProgram:
    """Return the assembly of all loops. Loops that differ in `parameter` or `walk` alone share a function."""
    functions: dict[str, str] = {}
    symbols = {}
    for loop in loops:
        text = function_text(loop, "SYMBOL")
        symbols[loop.name] = functions.setdefault(text, f"loop{len(functions)}")
    head = "\t.arch armv8.6-a+crypto+sha3+fp16+dotprod+bf16+i8mm\n\t.text\n"
    return LoopProgram(head + "".join(text.replace("SYMBOL", symbol) for text, symbol in functions.items()), symbols)
