"""Packs the constants of a planned model: the last stage before the link, and the only one that touches their bytes."""

from collections.abc import Mapping

import numpy as np

from mavcg.lowering.memory_plan import MemoryPlan
from mavcg.specs.kernel import Array
from mavcg.specs.packed_constant import constant_array


def pack_weights(memory: MemoryPlan, constants: Mapping[str, Array]) -> Array:
    """The bytes of all constants at their offsets, zeros between them, as an array of u8.

    constants: the lowered graph's.
    """
    packed = np.zeros(memory.constants_bytes, np.uint8)
    for each in memory.constants:
        content = np.ascontiguousarray(constant_array(each.constant, constants)).reshape(-1).view(np.uint8)
        packed[each.offset : each.offset + content.size] = content
    return packed
