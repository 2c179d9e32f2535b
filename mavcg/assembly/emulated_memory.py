"""The memory of an emulated run: pages are mapped on first access, in regions that grow, up to a limit.

The emulator's time per mapped region grows with the number of regions, so that mapping page by page is quadratic:
therefore a new region next to an existing one has twice its size.
"""

import random
from bisect import bisect
from functools import lru_cache
from typing import Any

from mavcg.assembly.code_image import EXTERNAL_DATA_BASE, EXTERNAL_DATA_LIMIT, PAGE_BYTES

LARGEST_GROWTH = 64  # maximum of pages mapped by one access
REGION_LIMIT = 256  # maximum of regions per run, for functions whose accesses are all far from each other
PAGE_LIMIT = 2048
ZERO_EVERY = 4  # in one of four states, data that the code refers to but does not define is zero
_LAST_PAGE_NUMBER = (1 << 64) // PAGE_BYTES - 1

# Lanes that arithmetic treats specially: zeros, infinities, quiet and signalling NaNs, subnormals, largest, one.
_SPECIAL = (0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345, 0x7F812345, 1, 0x807FFFFF, 0x7F7FFFFF)
_SPECIAL_LANES = tuple(lane.to_bytes(4, "little") for lane in (*_SPECIAL, 0x3F800000, 0xBF800000))

_TO_SMALL = bytes(byte % 41 for byte in range(256))  # any byte -> a count from 0 to 40


def random_lanes(pick: random.Random, count: int) -> bytes:
    """Return random contents, in bytes, for memory or vectors.

    Mostly moderate fp32 lanes (2^-7 to 4, both signs), which are moderate as fp64 and fp16 too; else small integers,
    special fp32 values among moderate ones, or arbitrary bits.
    """
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
    """Return the initial contents of memory page number `page`."""
    if seed % ZERO_EVERY == ZERO_EVERY - 1 and EXTERNAL_DATA_BASE <= page * PAGE_BYTES < EXTERNAL_DATA_LIMIT:
        return bytes(PAGE_BYTES)
    return random_lanes(random.Random(f"page {seed} {page}"), PAGE_BYTES)


class EmulatedMemory:
    """The regions of an emulator's memory that are mapped for a run."""

    def __init__(self, emulator: Any, access: int) -> None:
        """emulator: unicorn's Uc. access: its protection bits for data."""
        self._uc, self._access = emulator, access
        self._fixed: list[range] = []
        self._regions: list[range] = []  # of page numbers, sorted, disjoint; fixed ones and those of this run
        self._seed = self._pages = 0

    def fix(self, address: int, size: int, access: int) -> None:
        """Map whole pages for a section of an image, for all runs."""
        self._uc.mem_map(address, size, access)
        self._fixed.append(range(address // PAGE_BYTES, (address + size) // PAGE_BYTES))
        self._fixed.sort(key=lambda region: region.start)

    def begin(self, seed: int, contents: tuple[tuple[int, bytes], ...]) -> None:
        """Unmap the memory of the last run, and map the given contents (address, bytes) of this one."""
        for region in self._regions:
            if region not in self._fixed:
                self._uc.mem_unmap(region.start * PAGE_BYTES, len(region) * PAGE_BYTES)
        self._regions, self._seed, self._pages = list(self._fixed), seed, 0
        for address, data in contents:
            self._map(range(address // PAGE_BYTES, -(-(address + len(data)) // PAGE_BYTES)))
            self._uc.mem_write(address, data)
        self._pages = 0

    def grow(self, address: int) -> bool:
        """Map the page at an address and some next to it; return False if a limit is reached."""
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
