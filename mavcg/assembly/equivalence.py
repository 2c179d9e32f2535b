"""The check by execution: two forms of a function, run from the same start states, must give the same results.

It does not check the order of memory accesses (devices, other threads), nor paths that no start state takes.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from mavcg.assembly.code_image import CodeImage
from mavcg.assembly.emulation import (
    INSTRUCTION_LIMIT,
    SECONDS_LIMIT,
    STACK_BYTES,
    EmulatedCore,
    End,
    RunResult,
    State,
    start_state,
)

# Registers that a caller may read (AAPCS64, ARM IHI 0055): results (x0, x1; v0 to v3) and callee-saved registers.
CALLER_SEES = (
    *("x0", "x1", "v0", "v1", "v2", "v3"),
    *(f"x{number}" for number in range(19, 30)),
    *(f"d{number}" for number in range(8, 16)),
    "sp",
)
COMPARISON_SECONDS = 30.0  # for all states of a function


@dataclass(frozen=True)
class Difference:
    """A difference between the two runs from the start state of a seed.

    what: that differs: a register, "memory at ADDRESS" or "the end". before, after: its values, as text.
    """

    seed: int
    what: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.what}: before {self.before}, after {self.after}"


@dataclass(frozen=True)
class Undecided:
    """A seed whose runs were not compared, because the untransformed function did not return or time was over."""

    seed: int
    reason: str


@dataclass(frozen=True)
class Comparison:
    """The result of running both forms from all seeds.

    agreed: number of seeds from which both returned with equal results. differences: at most one per seed. coverage:
    fraction of the transformed function's instructions that ran from the seeds that agreed.
    """

    function: str
    agreed: int
    differences: tuple[Difference, ...]
    undecided: tuple[Undecided, ...]
    coverage: float = 0.0

    @property
    def passed(self) -> bool:
        """True if there was no difference and at least one comparison."""
        return not self.differences and self.agreed > 0

    def __str__(self) -> str:
        if self.differences:
            return f"{self.function}: {self.differences[0]}"
        reason = f" ({self.undecided[0].reason})" if self.undecided else ""
        return f"{self.function}: the same from {self.agreed} states, {len(self.undecided)} undecided{reason}"


@dataclass(frozen=True)
class RunLimits:
    """Limits of a comparison.

    instructions: of the form before; the form after may take four times as many. seconds: for all seeds together.
    """

    instructions: int = INSTRUCTION_LIMIT
    seconds: float = COMPARISON_SECONDS


def compare(
    before: CodeImage,
    after: CodeImage,
    function: str,
    seeds: Iterable[int],
    observed: Sequence[str] = CALLER_SEES,
    limits: RunLimits = RunLimits(),
    renamed: str | None = None,
    start: Callable[[int], State] = start_state,
) -> Comparison:
    """Run a function of both images from the start state of each seed, and compare the results.

    Results are equal if: both end in the same manner; all `observed` registers (names as in RunResult.register) are
    equal, and all bytes that either form wrote, except the dead stack below the final sp; and `after` reads no byte
    that `before` did not read, because it could fault there, except its own stack and the images.
    limits: seeds that remain when the seconds are over are undecided. renamed: the function's name in `after`. start:
    returns the start state of a seed.
    Raises: MavcgError if either image lacks the function.
    """
    first, second = EmulatedCore(before), EmulatedCore(after)
    agreed = 0
    differences: list[Difference] = []
    undecided: list[Undecided] = []
    executed: set[int] = set()
    deadline = time.monotonic() + limits.seconds
    for seed in seeds:
        left = deadline - time.monotonic()
        if left <= 0:
            undecided.append(Undecided(seed, f"the {limits.seconds:g} seconds for the check are over"))
            continue
        state = start(seed)
        old = first.run(function, state, limits.instructions, min(left, SECONDS_LIMIT))
        if old.end != End.RETURNED:
            undecided.append(Undecided(seed, _why(old)))
            continue
        new = second.run(renamed or function, state, 4 * limits.instructions, SECONDS_LIMIT)
        if new.end == End.TIME:
            undecided.append(Undecided(seed, _why(new)))
            continue
        difference = next(_differences(seed, old, new, observed, (before, after)), None)
        if difference is None:
            agreed += 1
            executed |= new.executed
        else:
            differences.append(difference)
    whole = after.extent(renamed or function)
    coverage = len(executed.intersection(whole)) / max(1, len(whole))
    return Comparison(function, agreed, tuple(differences), tuple(undecided), coverage)


def _why(outcome: RunResult) -> str:
    if outcome.end == End.CALL:
        return f"it calls '{outcome.where}', which is not in the file"
    return f"{outcome.end}, at {outcome.where}"


def _differences(
    seed: int, old: RunResult, new: RunResult, observed: Sequence[str], images: Sequence[CodeImage]
) -> Iterator[Difference]:
    if new.end != old.end:
        yield Difference(seed, "the end", old.end, f"{new.end}, at {new.where}" if new.where else new.end)
        return
    for name in observed:
        if old.register(name) != new.register(name):
            yield Difference(seed, name, f"{old.register(name):#x}", f"{new.register(name):#x}")
    dead_stack = range(old.sp - STACK_BYTES, old.sp)
    for address in sorted(old.written.keys() | new.written.keys()):
        values = old.written.get(address), new.written.get(address)
        if values[0] != values[1] and address not in dead_stack:
            shown = ["not written" if value is None else f"{value:#04x}" for value in values]
            yield Difference(seed, f"memory at {address:#x}", shown[0], shown[1])
    own = [dead_stack, *(range(s.address, s.address + len(s.data)) for image in images for s in image.sections)]
    for address in sorted(new.read - old.read):
        if not any(address in part for part in own):
            yield Difference(seed, f"memory at {address:#x}", "not read", "read")
