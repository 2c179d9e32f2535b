"""Allocate on-chip memory as a ring of buffers; each is overwritten as late as possible, which gives double buffering.

Addresses advance through the memory, so that a buffer that is loaded while another is in use is placed after it. The
loading unit only waits, by a token, for the readers of what was placed there one round before.
"""

from collections.abc import Hashable
from dataclasses import dataclass


class DoesNotFitError(Exception):
    """Raised when a buffer does not fit beside the pinned buffers; the caller retries with smaller tiles.

    memory: name of the full memory.
    """

    def __init__(self, memory: str, message: str) -> None:
        super().__init__(message)
        self.memory = memory


@dataclass
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
        self._buffers: list[_Buffer] = []

    def find(self, key: Hashable) -> int | None:
        """Pin a buffer and return its address; None if it was overwritten. key: as allocate was given it."""
        for buffer in self._buffers:
            if buffer.key == key:
                buffer.pins += 1
                return buffer.first
        return None

    def allocate(self, words: int, key: Hashable) -> int:
        """Return the address of a new, pinned buffer. Raises: DoesNotFitError."""
        first = self._free_from(self._next, words)
        if first is None:
            first = self._free_from(0, words)
        if first is None:
            wrong = f"{self.name}: {words} of {self.words} words beside {self.pinned_words()} in use"
            raise DoesNotFitError(self.name, wrong)
        end = first + words
        self._buffers = [buffer for buffer in self._buffers if buffer.end <= first or buffer.first >= end]
        self._buffers.append(_Buffer(first, end, key, 1))
        self._next = end
        return first

    def _free_from(self, at: int, words: int) -> int | None:
        for buffer in sorted((b for b in self._buffers if b.pins), key=lambda b: b.first):
            if buffer.end <= at:
                continue
            if buffer.first >= at + words:
                break
            at = buffer.end
        return at if at + words <= self.words else None

    def release(self, address: int) -> None:
        """Remove a pin from the buffer at an address; a buffer without pins may be overwritten."""
        buffer = next(b for b in self._buffers if b.first == address)
        buffer.pins -= 1

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
                buffer.key = None
