"""Operators to be ordered so that their buffers need little memory at once, and the peak of an order."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class OrderProblem:
    """Operators that touch buffers, in a valid order.

    sizes: of the buffers. touched: for each operator, the numbers of the buffers that it reads or writes. before: for
    each operator, the numbers of those that must run before it. A buffer is live from the first operator that touches
    it to the last, inclusive.
    """

    sizes: tuple[int, ...]
    touched: tuple[tuple[int, ...], ...]
    before: tuple[tuple[int, ...], ...]

    @cached_property
    def users(self) -> tuple[int, ...]:
        """Operators that touch each buffer, as bit masks."""
        masks = [0] * len(self.sizes)
        for number, buffers in enumerate(self.touched):
            for buffer in buffers:
                masks[buffer] |= 1 << number
        return tuple(masks)

    @cached_property
    def predecessors(self) -> tuple[int, ...]:
        """Operators that must run before each operator, as bit masks."""
        return tuple(sum(1 << predecessor for predecessor in set(others)) for others in self.before)

    @cached_property
    def followers(self) -> tuple[tuple[int, ...], ...]:
        """Operators that must run after each operator."""
        followers: list[list[int]] = [[] for _ in self.touched]
        for number, others in enumerate(self.before):
            for predecessor in set(others):
                followers[predecessor].append(number)
        return tuple(tuple(numbers) for numbers in followers)

    @cached_property
    def least_peak(self) -> int:
        """Bytes that the largest operator touches: a lower bound of the peak."""
        return max((sum(self.sizes[b] for b in set(buffers)) for buffers in self.touched), default=0)

    def step(self, executed: int, number: int) -> tuple[int, int]:
        """Return the memory that an operator adds while it runs, and after it.

        executed: mask of the operators that have run.
        """
        opened = closed = 0
        after = executed | 1 << number
        for buffer in self.touched[number]:
            users = self.users[buffer]
            if not users & executed:
                opened += self.sizes[buffer]
            if not users & ~after:
                closed += self.sizes[buffer]
        return opened, opened - closed


def peak_of(problem: OrderProblem, order: Sequence[int]) -> int:
    """Return the live peak of an order."""
    done, live, peak = 0, 0, 0
    for number in order:
        opened, change = problem.step(done, number)
        peak = max(peak, live + opened)
        done, live = done | 1 << number, live + change
    return peak


def bits_of(mask: int) -> list[int]:
    """Return the numbers of the bits that are set, the lowest first."""
    bits = []
    while mask:
        bits.append((mask & -mask).bit_length() - 1)
        mask &= mask - 1
    return bits
