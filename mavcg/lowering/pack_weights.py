"""Packs the constants of a planned model: the last stage before the link, and the only one that touches their bytes."""

from collections.abc import Iterable, Mapping

import numpy as np

from mavcg.lowering.memory_plan import ConstantPlace, ConstantPool, MemoryPlan
from mavcg.specs.kernel import Array
from mavcg.specs.packed_constant import constant_array


def pack_weights(memory: MemoryPlan, constants: Mapping[str, Array]) -> Array:
    """Return the bytes of all constants at their offsets, zeros between them, as an array of u8.

    constants: the lowered graph's.
    """
    return _pack(memory.constants_bytes, ((place, constants) for place in memory.constants))


def pack_pool(pool: ConstantPool) -> Array:
    """Return the bytes of the constants of several models, as pack_weights."""
    return _pack(pool.end, pool.placed)


def _pack(size: int, places: Iterable[tuple[ConstantPlace, Mapping[str, Array]]]) -> Array:
    packed = np.zeros(size, np.uint8)
    for place, constants in places:
        content = np.ascontiguousarray(constant_array(place.constant, constants)).reshape(-1).view(np.uint8)
        packed[place.offset : place.offset + content.size] = content
    return packed
