"""Packs the constants of a planned model: the last stage before the link, and the only one that touches their bytes."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from mavcg.lowering.memory_plan import ConstantPlace, ConstantPool, MemoryPlan
from mavcg.specs.kernel import Array
from mavcg.specs.packed_constant import constant_array


def pack_weights(memory: MemoryPlan, constants: Mapping[str, Array]) -> Array:
    """Return the bytes of all constants at their offsets, zeros between them, as an array of u8.

    constants: the lowered graph's.
    """
    return np.concatenate([np.zeros(0, np.uint8), *packed_weights(memory, constants)])


def packed_weights(memory: MemoryPlan, constants: Mapping[str, Array]) -> Iterator[Array]:
    """Yield the bytes of pack_weights in pieces, one after the other: no more is in memory than a constant."""
    return _pieces(memory.constants_bytes, ((place, constants) for place in memory.constants))


def packed_pool(pool: ConstantPool) -> Iterator[Array]:
    """Yield the bytes of the constants of several models, as packed_weights."""
    return _pieces(pool.end, pool.placed)


def _pieces(size: int, places: Iterable[tuple[ConstantPlace, Mapping[str, Array]]]) -> Iterator[Array]:
    end = 0
    for place, constants in places:
        content = np.ascontiguousarray(constant_array(place.constant, constants)).reshape(-1).view(np.uint8)
        yield np.zeros(place.offset - end, np.uint8)
        yield content
        end = place.offset + content.size
    yield np.zeros(size - end, np.uint8)
