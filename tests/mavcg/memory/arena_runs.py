"""Graphs computed in an arena, as the storage of their tensors says."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mavcg.graph import DTYPES
from mavcg.graph.reference import evaluate
from mavcg.memory.arena import Lifetime, place_buffers
from mavcg.memory.locations import Storage, lifetimes_of

Array = NDArray[Any]


def run_in_arena(
    storage: Storage, inputs: dict[str, Array], same: Mapping[str, str] = MappingProxyType({})
) -> list[Array]:
    """Run a graph in one memory as a library does. Nodes read and write where the storage says, silent ones do not run.

    same: outputs that lie in the buffer of an input.
    """
    graph = storage.graph
    outside = {*graph.inputs, *graph.outputs}
    lives = lifetimes_of(storage, graph.nodes)
    arena = place_buffers([Lifetime(r, graph.types[r].bytes, *lives[r]) for r in lives if r not in outside])
    memory = np.full(arena.bytes + 64, 0xC3, np.uint8)
    own = {name: np.full(graph.types[name].bytes, 0xC3, np.uint8) for name in outside}
    for name in graph.inputs:
        own[name][:] = np.frombuffer(np.ascontiguousarray(inputs[name]).tobytes(), np.uint8)
    own |= {output: own[name] for output, name in same.items()}

    def array(name: str, iterations: Mapping[int, int]) -> Array:
        if name in graph.constants:
            return graph.constants[name]
        location = storage.locations[name]
        dtype = DTYPES[location.view.dtype]
        raw = own[location.root] if location.root in outside else memory[arena.offsets[location.root] :]
        raw = raw[: graph.types[location.root].bytes].view(dtype)
        strides = [s * dtype.itemsize for s in location.view.strides]
        start = location.offset + sum(iterations[loop] * elements for loop, elements in location.advance)
        return np.lib.stride_tricks.as_strided(raw[start:], location.view.shape, strides)

    def order(first: int, last: int, parent: int, iterations: dict[int, int]) -> Iterator[tuple[int, dict[int, int]]]:
        """Yield nodes with the iterations of the loops around them."""
        inner = {loop.first: place for place, loop in enumerate(storage.loops) if loop.parent == parent}
        number = first
        while number <= last:
            if number in inner:
                loop = storage.loops[inner[number]]
                for iteration in range(loop.trips):
                    if loop.condition and not array(loop.condition, {}):
                        break
                    own = {**iterations, loop.number: iteration}
                    yield from order(number, loop.last, inner[number], own)
                number = loop.last + 1
            else:
                yield number, iterations
                number += 1

    for number, iteration in order(0, len(graph.nodes) - 1, -1, {}):
        node = graph.nodes[number]
        if any(name in storage.silent for name in node.outputs):
            continue
        if node.output in storage.bordered:
            lengths = graph.shape(node.inputs[0])
            inside = tuple(slice(b, b + n) for b, n in zip(node.attr("before"), lengths, strict=True))
            border = np.ones(graph.shape(node.output), bool)
            border[inside] = False
            array(node.output, iteration)[border] = node.attr("value")
            continue
        read = [np.array(array(n, iteration)) if n else None for n in node.inputs]
        results = read[1:] if node.op == "loop_next" else evaluate(node, read)
        for name, result in zip(node.outputs, results, strict=True):
            array(name, iteration)[...] = result
    return [np.array(array(name, {})) for name in graph.outputs]
