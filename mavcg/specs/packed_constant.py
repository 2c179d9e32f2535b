"""Recipes of packed constants: lowering creates recipes, and the build packs each once at its end."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class WeightParts:
    """The division of a kernel's weights among its rows of work.

    count: number of equal parts; a row of work reads one. outer: number of groups of parts that are processed one after
    the other; the parts of a group are read again for each row of outputs before the next group. input_passes: number
    of times that all rows together read the input.
    """

    count: int = 1
    outer: int = 1
    input_passes: int = 1


WHOLE_WEIGHTS = WeightParts()


Array = NDArray[Any]


@dataclass(frozen=True)
class PackedConstant:
    """The recipe of a packed constant, with the size of the result.

    pack: a function of a module that returns pack(*arrays, *parameters). sources: names of the graph's constants that
    are its arrays. parameters: hashable; equal recipes are packed once. shape, dtype (NumPy's name): of the packed
    array.
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
        """Pack the constant and return the array.

        constants: the graph's constants, by name. Raises: ValueError where the result has another shape or type than
        planned.
        """
        array = self.pack(*(constants[name] for name in self.sources), *self.parameters)
        if array.shape != self.shape or array.dtype != np.dtype(self.dtype):
            raise ValueError(
                f"{self.pack.__name__} of {', '.join(self.sources)}: {array.dtype}{list(array.shape)} where "
                f"{self.dtype}{list(self.shape)} was planned"
            )
        return array


def constant_array(constant: Array | PackedConstant, constants: Mapping[str, Array]) -> Array:
    """Return the array of an operand's constant, packed if it is a recipe.

    constants: the graph's constants, by name. Raises: as PackedConstant.packed_array.
    """
    return constant.packed_array(constants) if isinstance(constant, PackedConstant) else constant
