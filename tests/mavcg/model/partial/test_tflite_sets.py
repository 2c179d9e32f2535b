"""Sets of a delegate, against the runtime's rule on small graphs and its properties on generated ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.model.partial.tflite_sets import delegate_sets


@pytest.mark.parametrize(
    ("sources", "supported", "sets"),
    [
        ([[], [0], [1]], [True, True, True], [(0, 1, 2)]),
        ([[], [0], [1]], [True, False, True], [(0,), (2,)]),
        # Node 0 runs first and alone: node 2 waits for node 1, which belongs to the runtime.
        ([[], [], [0, 1]], [True, False, True], [(0,), (2,)]),
        # The runtime's node comes first, and both others after it.
        ([[], [], [0, 1]], [False, True, True], [(1, 2)]),
        # Two chains without a connection are one set.
        ([[], []], [True, True], [(0, 1)]),
        ([], [], []),
    ],
)
def test_small_graphs(sources: list[list[int]], supported: list[bool], sets: list[tuple[int, ...]]) -> None:
    assert delegate_sets(sources, supported, [1] * len(sources)) == sets


@given(st.data(), st.integers(0, 20))
def test_each_supported_node_is_in_one_set(data: st.DataObject, count: int) -> None:
    sources = [data.draw(st.lists(st.integers(0, i - 1), unique=True)) if i else [] for i in range(count)]
    supported = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    sets = delegate_sets(sources, supported, [1] * count)

    assert sorted(n for nodes in sets for n in nodes) == [n for n, able in enumerate(supported) if able]
    assert all(list(nodes) == sorted(nodes) for nodes in sets)
