"""Pads taken in by the operators that pad by themselves, where that changes no number."""

from typing import Any

import pytest

from mavcg.passes.graph.pads import fold_pads

POOL = """input %x: f32[1,4,4,1]
        {before}
        %p = pad(%i) before=[0,1,1,0] after=[0,1,0,0] value={value}
        %y = {op}(%p) kernel=[{size},{size}] pads=[0,0,0,1]
        return %y"""


@pytest.mark.parametrize(
    ("before", "value", "op", "size", "folds"),
    [
        ("%i = abs(%x)", "0.0", "max_pool2d", 2, True),
        ("%i = neg(%x)", "0.0", "max_pool2d", 2, False),  # a zero would have been the largest
        ("%i = neg(%x)", "-inf", "max_pool2d", 2, True),
        ("%i = abs(%x)", "0.0", "max_pool2d", 1, False),  # windows in the pads alone
        ("%i = neg(%x)", "0.0", "avg_pool2d", 2, True),
        ("%i = neg(%x)", "1.0", "avg_pool2d", 2, False),
    ],
)
def test_pools_take_in_pads(before: str, value: str, op: str, size: int, folds: bool, h: Any) -> None:
    text = POOL.format(before=before, value=value, op=op, size=size)
    graph = h.graph(text.replace(" pads=[0,0,0,1]", "") if size == 1 else text)
    after = fold_pads(graph)
    assert ("pad" not in [node.op for node in after.nodes]) == folds
    h.same(graph, after, relative=1e-6)
