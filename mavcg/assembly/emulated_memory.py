"""The memory of an emulated run: it appears where the function looks, in regions that grow, up to a limit.

The emulator needs time for every mapped region that grows with their number, so that a page at a time is quadratic: a
region that lies beside another one is twice as large as that one.
"""

import random
from bisect import bisect
from functools import lru_cache
from typing import Any

from mavcg.assembly.code_image import EXTERNAL_DATA_BASE, EXTERNAL_DATA_LIMIT, PAGE_BYTES

LARGEST_GROWTH = 64  # pages that one access may bring
REGION_LIMIT = 256  # regions that a run may touch: a function that steps far at every access touches as many pages
PAGE_LIMIT = 2048
ZERO_EVERY = 4  # one state of so many has zeroes for data that the code refers to and does not define
_LAST_PAGE_NUMBER = (1 << 64) // PAGE_BYTES - 1

# Lanes that arithmetic treats specially: zeros, infinities, quiet and signalling NaNs, subnormals, largest, one.
_SPECIAL = (0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345, 0x7F812345, 1, 0x807FFFFF, 0x7F7FFFFF)
_SPECIAL_LANES = tuple(lane.to_bytes(4, "little") for lane in (*_SPECIAL, 0x3F800000, 0xBF800000))

_TO_SMALL = bytes(byte % 41 for byte in range(256))  # any byte -> a count from 0 to 40


def random_lanes(pick: random.Random, count: int) -> bytes:
    """Return the bytes for memory or vectors: mostly moderate fp32 lanes (2^-7 to 4, both signs), also moderate as fp64
    and fp16; else small integers, special fp32 values among moderate ones, or any bits."""
    kind = pick.random()
    if kind < 0.12:
        return pick.randbytes(count)
    if kind < 0.24:
        small = bytearray(count)
        small[::4] = pick.randbytes(count // 4).translate(_TO_SMALL)
        return bytes(small)
    lanes = int.from_bytes(pick.randbytes(count), "little")
    keep = int.from_bytes(b"\xff\xff\xff\xbf" * (count // 4), "little")
    exponent = int.from_bytes(b"\x00\x00\x00\x3c" * (count // 4), "little")
    moderate = (lanes & keep | exponent).to_bytes(count, "little")
    if kind < 0.34:
        mixed = bytearray(moderate)
        for lane, byte in enumerate(pick.randbytes(count // 4)):
            if byte < 0.3 * 256:
                mixed[4 * lane : 4 * lane + 4] = _SPECIAL_LANES[byte % len(_SPECIAL_LANES)]
        return bytes(mixed)
    return moderate


@lru_cache(maxsize=2048)  # two runs from one state read the same pages
def page_bytes(seed: int, page: int) -> bytes:
    """Return the contents of memory page number `page` before a run."""
    if seed % ZERO_EVERY == ZERO_EVERY - 1 and EXTERNAL_DATA_BASE <= page * PAGE_BYTES < EXTERNAL_DATA_LIMIT:
        return bytes(PAGE_BYTES)
    return random_lanes(random.Random(f"page {seed} {page}"), PAGE_BYTES)


class EmulatedMemory:
    """The regions of an emulator's memory that belong to a run."""

    def __init__(self, emulator: Any, access: int) -> None:
        """Take an emulator (unicorn's Uc) and its protection bits for data."""
        self._uc, self._access = emulator, access
        self._fixed: list[range] = []
        self._regions: list[range] = []  # of page numbers, sorted, disjoint; fixed ones and those of this run
        self._seed = self._pages = 0

    def fix(self, address: int, size: int, access: int) -> None:
        """Map whole pages for a section of an image, for all runs."""
        self._uc.mem_map(address, size, access)
        self._fixed.append(range(address // PAGE_BYTES, (address + size) // PAGE_BYTES))
        self._fixed.sort(key=lambda region: region.start)

    def begin(self, seed: int, given: tuple[tuple[int, bytes], ...]) -> None:
        """Forget the last run; map what this one is given: (address, bytes), on pages of their own."""
        for region in self._regions:
            if region not in self._fixed:
                self._uc.mem_unmap(region.start * PAGE_BYTES, len(region) * PAGE_BYTES)
        self._regions, self._seed, self._pages = list(self._fixed), seed, 0
        for address, data in given:
            self._map(range(address // PAGE_BYTES, -(-(address + len(data)) // PAGE_BYTES)))
            self._uc.mem_write(address, data)
        self._pages = 0

    def grow(self, address: int) -> bool:
        """Map the page at an address and some of its neighbours; return False beyond the limits."""
        if len(self._regions) >= REGION_LIMIT or self._pages >= PAGE_LIMIT:
            return False
        page = address // PAGE_BYTES
        at = bisect(self._regions, page, key=lambda region: region.start)
        before = self._regions[at - 1] if at else range(-1, -1)
        behind = self._regions[at] if at < len(self._regions) else range(_LAST_PAGE_NUMBER + 1, _LAST_PAGE_NUMBER + 1)
        first = stop = page
        if before.stop == page and before not in self._fixed:
            stop = page + min(2 * len(before), LARGEST_GROWTH) - 1
        elif behind.start == page + 1 and behind not in self._fixed:
            first = page - min(2 * len(behind), LARGEST_GROWTH) + 1
        self._map(range(max(first, before.stop, 0), min(stop + 1, behind.start)))
        return True

    def _map(self, pages: range) -> None:
        self._uc.mem_map(pages.start * PAGE_BYTES, len(pages) * PAGE_BYTES, self._access)
        content = b"".join(page_bytes(self._seed, page) for page in pages)
        self._uc.mem_write(pages.start * PAGE_BYTES, content)
        self._regions.insert(bisect(self._regions, pages.start, key=lambda region: region.start), pages)
        self._pages += len(pages)
