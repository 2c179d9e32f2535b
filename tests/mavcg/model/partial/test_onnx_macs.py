"""Multiply-accumulates of nodes, against sums that are written out."""

from typing import Any

import pytest

from mavcg.graph import TensorType
from mavcg.model.partial.onnx_macs import node_macs

onnx = pytest.importorskip("onnx")


def macs(op: str, inputs: list[tuple[int, ...] | None], output: tuple[int, ...], **attributes: Any) -> int | None:
    names = [f"i{i}" for i in range(len(inputs))]
    types = {n: TensorType("f32", s) for n, s in zip(names, inputs, strict=True) if s is not None}
    return node_macs(onnx.helper.make_node(op, names, ["y"], **attributes), types | {"y": TensorType("f32", output)})


@pytest.mark.parametrize(
    ("op", "inputs", "output", "attributes", "count"),
    [
        # 8 channels of 10 x 10 pixels, each a sum over 3 channels of 3 x 3.
        ("Conv", [(1, 3, 10, 10), (8, 3, 3, 3)], (1, 8, 10, 10), {}, 8 * 100 * 27),
        ("Conv", [(1, 8, 10, 10), (8, 1, 3, 3)], (1, 8, 10, 10), {"group": 8}, 8 * 100 * 9),
        ("ConvTranspose", [(1, 4, 5, 5), (4, 2, 2, 2)], (1, 2, 10, 10), {}, 4 * 25 * 2 * 4),
        ("Gemm", [(5, 7), (7, 3)], (5, 3), {}, 5 * 7 * 3),
        ("Gemm", [(7, 5), (7, 3)], (5, 3), {"transA": 1}, 5 * 7 * 3),
        ("MatMul", [(2, 5, 7), (7, 3)], (2, 5, 3), {}, 2 * 5 * 7 * 3),
        # 6 time steps, batch 2, 4 gates of 5 elements, each over 3 inputs and 5 of the state; in both directions.
        (
            "LSTM",
            [(6, 2, 3), (2, 20, 3), (2, 20, 5)],
            (6, 2, 2, 5),
            {"hidden_size": 5, "direction": "bidirectional"},
            2 * 6 * 2 * 4 * 5 * 8,
        ),
        ("GRU", [(6, 2, 3), (1, 15, 3), (1, 15, 5)], (6, 1, 2, 5), {"hidden_size": 5}, 6 * 2 * 3 * 5 * 8),
        ("Einsum", [(2, 3, 4), (2, 4, 5)], (2, 3, 5), {"equation": "bij, bjk -> bik"}, 2 * 3 * 4 * 5),
        ("Relu", [(9,)], (9,), {}, 0),
        ("Loop", [(1,)], (9,), {}, None),
        ("MatMul", [None, (7, 3)], (2, 5, 3), {}, None),
        ("Conv", [(1, 3, 10, 10)], (1, 8, 10, 10), {}, None),
    ],
)
def test_counts(op: str, inputs: list[Any], output: tuple[int, ...], attributes: dict[str, Any], count: int) -> None:
    assert macs(op, inputs, output, **attributes) == count
