"""Pack a planned model's constants: the last stage before the link, and the only one that computes their bytes."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from mavcg.choose.lowering.memory_plan import ConstantPlace, ConstantPool, MemoryPlan
from mavcg.specs.kernel import Array
from mavcg.specs.packed_constant import constant_array


def pack_weights(memory: MemoryPlan, constants: Mapping[str, Array]) -> Array:
    """Return the bytes of all constants at their offsets, with zeros between them, as u8 [constants_bytes].

    constants: the lowered graph's constants, by name.
    """
    return np.concatenate([np.zeros(0, np.uint8), *packed_weights(memory, constants)])


def packed_weights(memory: MemoryPlan, constants: Mapping[str, Array]) -> Iterator[Array]:
    """Yield the bytes of pack_weights piece by piece, so that only one packed constant is in memory at a time."""
    return _packed_pieces(memory.constants_bytes, ((constant_place, constants) for constant_place in memory.constants))


def packed_pool(pool: ConstantPool) -> Iterator[Array]:
    """Yield the bytes of several models' constants piece by piece, as packed_weights does."""
    return _packed_pieces(pool.end, pool.placed)


def _packed_pieces(size: int, placed: Iterable[tuple[ConstantPlace, Mapping[str, Array]]]) -> Iterator[Array]:
    end = 0
    for constant_place, constants in placed:
        content = np.ascontiguousarray(constant_array(constant_place.constant, constants)).reshape(-1).view(np.uint8)
        yield np.zeros(constant_place.offset - end, np.uint8)
        yield content
        end = constant_place.offset + content.size
    yield np.zeros(size - end, np.uint8)
