"""Arrays that end where a page begins that nobody may touch."""

import ctypes
import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def guarded(values: Array) -> tuple[mmap.mmap, Array]:
    """A copy of an array that ends where a page begins that nobody may touch, and its memory."""
    page = mmap.PAGESIZE
    pages = -(-values.nbytes // page)
    memory = mmap.mmap(-1, (pages + 1) * page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(address + pages * page), page, 0) == 0
    copy = np.frombuffer(memory, values.dtype, values.size, pages * page - values.nbytes).reshape(values.shape)
    copy[...] = values
    return memory, copy
