"""Runs of a library whose inputs and outputs lie between pages without access."""

import mmap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.differential.part import Array


class Guarded:
    """Memory of an array between two pages without access; it ends at the upper or begins at the lower one."""

    def __init__(self, shape: Sequence[int], dtype: Any, at_end: bool) -> None:
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        page = mmap.PAGESIZE
        pages = max(1, -(-size // page))
        self._map = mmap.mmap(-1, (pages + 2) * page)
        start = np.frombuffer(self._map, np.uint8).ctypes.data
        for address in (start, start + (pages + 1) * page):
            _forbid(address, page)
        offset = page + (pages * page - size if at_end else 0)
        self.array = np.frombuffer(self._map, dtype, int(np.prod(shape, dtype=np.int64)), offset).reshape(shape)


def _forbid(address: int, size: int) -> None:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), 0):
        raise OSError(ctypes.get_errno(), "mprotect")


def run_guarded(library: Path, arrays: Mapping[str, Array], at_end: bool) -> list[Array]:
    """Return a library's outputs, in order; inputs and outputs are in guarded memory. arrays: inputs by name."""
    from mavcg.runtime.loading import load

    with load(library) as model:
        inputs = []
        for tensor in model.inputs:
            memory = Guarded(tensor.shape, tensor.dtype, at_end)
            memory.array[...] = arrays[tensor.name]
            inputs.append(memory)
        outputs = [Guarded(tensor.shape, tensor.dtype, at_end) for tensor in model.outputs]
        for memory in outputs:
            memory.array.reshape(-1).view(np.uint8)[...] = 0xA5
        model.run(*[memory.array for memory in inputs], out=[memory.array for memory in outputs])
        return [memory.array.copy() for memory in outputs]
