"""Examples in docstrings as graphs; random arrays; the reference before and after."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mavcg.graph import DTYPES, Graph
from mavcg.graph.ops import infer, make_node
from mavcg.graph.ops.nodes import verify
from mavcg.graph.reference import run

Array = NDArray[Any]
Pass = Callable[[Graph], Graph]


def graph_of(text: str) -> Graph:
    """The graph of a short text: without the frame, types of results, and attributes that have their defaults."""
    lines = [re.sub(r"^(%[\w.]+) =", r"\1: f32[0] =", line.strip()) for line in text.strip().splitlines()]
    graph = Graph.parse("graph g {\n" + "\n".join(lines) + "\n}")
    types = {name: graph.types[name] for name in (*graph.inputs, *graph.constants)}
    nodes = []
    for node in graph.nodes:
        nodes.append(make_node(node.op, node.inputs, node.outputs, node.origin, **dict(node.attrs)))
        types.update(zip(node.outputs, infer(nodes[-1], types, graph.constants), strict=True))
    found = replace(graph, nodes=tuple(nodes), types=types)
    verify(found)
    return found


def examples_of(function: Callable[..., object]) -> list[tuple[Graph, Graph]]:
    """The pairs of Before and After in a docstring."""
    text = function.__doc__ or ""
    blocks = re.findall(r"(Before|After):\n((?: {8}.*\n)+)", text)
    assert blocks and [kind for kind, _ in blocks] == ["Before", "After"] * (len(blocks) // 2)
    graphs = [graph_of(block) for _, block in blocks]
    return list(zip(graphs[::2], graphs[1::2], strict=True))


def inputs_of(graph: Graph, seed: int = 0) -> tuple[Array, ...]:
    """Random inputs: small numbers of either sign."""
    rng = np.random.default_rng(seed)
    arrays = []
    for name in graph.inputs:
        tensor = graph.types[name]
        low = 0 if tensor.dtype.startswith("u") or tensor.dtype == "bool" else -100
        if tensor.dtype.startswith("f"):
            arrays.append(rng.standard_normal(tensor.shape).astype(DTYPES[tensor.dtype]) * 3)
        else:
            arrays.append(rng.integers(low, 100, tensor.shape).astype(DTYPES[tensor.dtype]))
    return tuple(arrays)


@dataclass(frozen=True)
class Helpers:
    """What the tests of this folder share."""

    graph: Callable[[str], Graph] = staticmethod(graph_of)
    examples: Callable[[Callable[..., object]], list[tuple[Graph, Graph]]] = staticmethod(examples_of)

    def same(self, before: Graph, after: Graph, relative: float = 0.0, seed: int = 0) -> None:
        """Both give the same results: bit by bit, or within `relative` of the largest value."""
        verify(after)
        assert after.inputs == before.inputs and after.outputs == before.outputs
        assert [after.types[n] for n in after.outputs] == [before.types[n] for n in before.outputs]
        arrays = inputs_of(before, seed)
        pairs: Sequence[tuple[Array, Array]] = list(zip(run(before, *arrays), run(after, *arrays), strict=True))
        for wanted, found in pairs:
            if relative == 0.0:
                np.testing.assert_array_equal(found, wanted)
            else:
                largest = float(np.abs(wanted).max(initial=0.0))
                np.testing.assert_allclose(found, wanted, rtol=0, atol=relative * max(largest, 1e-3))


@pytest.fixture(scope="session")
def h() -> Helpers:
    return Helpers()
