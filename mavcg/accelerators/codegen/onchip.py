"""Allocate on-chip memory as a ring of buffers; each is overwritten as late as possible, which gives double buffering.

Addresses advance through the memory, so that a buffer that is loaded while another is in use is placed after it. The
loading unit only waits, by a token, for the readers of what was placed there one round before.
"""

from bisect import bisect_left
from collections.abc import Hashable
from dataclasses import dataclass


class DoesNotFitError(Exception):
    """Raised when a buffer does not fit beside the pinned buffers; the caller retries with smaller tiles.

    memory: name of the full memory.
    """

    def __init__(self, memory: str, message: str) -> None:
        super().__init__(message)
        self.memory = memory


@dataclass(eq=False)
class _Buffer:
    first: int
    end: int
    key: Hashable
    pins: int


class OnChipMemory:
    """Buffers in a memory of `words` words. A buffer is pinned while later instructions need its contents."""

    def __init__(self, name: str, words: int) -> None:
        self.name = name
        self.words = words
        self._next = 0
        self._buffers: list[_Buffer] = []  # by address; none overlap
        self._firsts: list[int] = []  # their addresses
        self._by_key: dict[Hashable, list[_Buffer]] = {}  # the oldest first

    def find(self, key: Hashable) -> int | None:
        """Pin a buffer and return its address; None if it was overwritten. key: as allocate was given it."""
        buffers = self._by_key.get(key)
        if not buffers:
            return None
        buffers[0].pins += 1
        return buffers[0].first

    def allocate(self, words: int, key: Hashable) -> int:
        """Return the address of a new, pinned buffer. key: for find; None for no later use. Raises: DoesNotFitError."""
        first = self._free_from(self._next, words)
        if first is None:
            first = self._free_from(0, words)
        if first is None:
            wrong = f"{self.name}: {words} of {self.words} words beside {self.pinned_words()} in use"
            raise DoesNotFitError(self.name, wrong)
        end = first + words
        low, high = self._first_after(first), bisect_left(self._firsts, end)
        for buffer in self._buffers[low:high]:
            self._forget_key(buffer)
        made = _Buffer(first, end, key, 1)
        self._buffers[low:high], self._firsts[low:high] = [made], [first]
        if key is not None:
            self._by_key.setdefault(key, []).append(made)
        self._next = end
        return first

    def _first_after(self, at: int) -> int:
        """Return the number of buffers that end at an address or before it."""
        index = bisect_left(self._firsts, at)
        return index - 1 if index and self._buffers[index - 1].end > at else index

    def _forget_key(self, buffer: _Buffer) -> None:
        if buffer.key is None:
            return
        buffers = self._by_key[buffer.key]
        buffers.remove(buffer)
        if not buffers:
            del self._by_key[buffer.key]
        buffer.key = None

    def _free_from(self, at: int, words: int) -> int | None:
        for index in range(self._first_after(at), len(self._buffers)):
            buffer = self._buffers[index]
            if buffer.first >= at + words:
                break
            if buffer.pins:
                at = buffer.end
        return at if at + words <= self.words else None

    def release(self, address: int) -> None:
        """Remove a pin from the buffer at an address; a buffer without pins may be overwritten."""
        self._buffers[bisect_left(self._firsts, address)].pins -= 1

    def pinned_words(self) -> int:
        """Return the total size of the pinned buffers, in words."""
        return sum(buffer.end - buffer.first for buffer in self._buffers if buffer.pins)

    def rewind(self) -> None:
        """Place the next buffer at the beginning."""
        self._next = 0

    def forget(self) -> None:
        """Forget the keys of unpinned buffers, so that later code does not reuse their contents."""
        for buffer in self._buffers:
            if not buffer.pins:
                self._forget_key(buffer)
