"""Call compiled kernels by their addresses, with the signature of csrc/kernel_api.h."""

from collections.abc import Sequence
from typing import Any

from mavcg.runtime.declared import ffi


class KernelCall:
    """A kernel at an address, with its operands; Python's global lock is released while it runs."""

    def __init__(self, address: int, operands: Sequence[int], scratch: int) -> None:
        """Keep the addresses; the memory there must outlive this object."""
        self._kernel = ffi.cast("engine_kernel *", address)
        self._operands: Any = ffi.new("void *[]", [ffi.cast("void *", operand) for operand in operands])
        self._scratch = ffi.cast("void *", scratch)

    def __call__(self, begin: int, end: int) -> None:
        """Compute the rows [begin, end)."""
        self._kernel(self._operands, begin, end, self._scratch)
