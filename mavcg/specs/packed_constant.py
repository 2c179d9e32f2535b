"""Recipes of packed constants: lowering names them, the build packs each once at its end."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class PackedConstant:
    """A constant to be packed, and its size before it is.

    pack: a module's function, called as pack(*arrays, *parameters), which returns the packed array. sources: the
    graph's constants that these arrays are, by name. parameters: hashable; equal recipes are packed once. shape, dtype
    (NumPy's name): of the packed array.
    """

    pack: Callable[..., Array]
    sources: tuple[str, ...]
    parameters: tuple[Hashable, ...]
    shape: tuple[int, ...]
    dtype: str = "float32"

    @property
    def nbytes(self) -> int:
        """Size of the packed array in bytes."""
        return prod(self.shape) * np.dtype(self.dtype).itemsize

    def packed_array(self, constants: Mapping[str, Array]) -> Array:
        """Return the packed array.

        constants: the graph's, by name. Raises: ValueError where the array has another shape or type than was planned.
        """
        array = self.pack(*(constants[name] for name in self.sources), *self.parameters)
        if array.shape != self.shape or array.dtype != np.dtype(self.dtype):
            raise ValueError(
                f"{self.pack.__name__} of {', '.join(self.sources)}: {array.dtype}{list(array.shape)} where "
                f"{self.dtype}{list(self.shape)} was planned"
            )
        return array


def constant_array(constant: Array | PackedConstant, constants: Mapping[str, Array]) -> Array:
    """Return the array of an operand's constant, packed.

    constants: the graph's, by name. Raises: as PackedConstant.packed_array.
    """
    return constant.packed_array(constants) if isinstance(constant, PackedConstant) else constant
