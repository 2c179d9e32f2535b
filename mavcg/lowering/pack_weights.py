"""Packs the constants of a planned model: the last stage before the link, and the only one that touches their bytes."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from mavcg.lowering.memory_plan import ConstantPlace, MemoryPlan
from mavcg.specs.kernel import Array
from mavcg.specs.packed_constant import constant_array


def pack_weights(memory: MemoryPlan, constants: Mapping[str, Array], workers: int = 1) -> bytes:
    """The bytes of all constants at their offsets, zeros between them.

    constants: the lowered graph's. workers: threads; NumPy's copies and sums run beside each other.
    """
    packed = np.zeros(memory.constants_bytes, np.uint8)

    def write(each: ConstantPlace) -> None:
        content = np.ascontiguousarray(constant_array(each.constant, constants)).reshape(-1).view(np.uint8)
        packed[each.offset : each.offset + content.size] = content

    with ThreadPoolExecutor(max(1, workers)) as pool:
        list(pool.map(write, memory.constants))
    return packed.tobytes()
