"""im2row over 8-bit numbers: every bit as the definition has it, whatever the window, groups and the input's buffer."""

import numpy as np
import pytest

from bench.jit import host_machine
from bench.program_runner import ProgramRunner
from mavcg.choose.lowering.lower import lower_graph
from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.graph.reference import run
from mavcg.kernels.int8.im2row import IM2ROW, im2row_choices
from mavcg.passes.graph.pads import explicit_padding
from mavcg.specs.kernel import Packing
from tests.kernels.int8.test_conv2d import ending, numbers


def graph_of(
    x: tuple[int, ...],
    w: tuple[int, ...],
    dtype: str = "u8",
    stride: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
    pads: tuple[int, ...] = (0, 0, 0, 0),
    groups: int = 1,
) -> Graph:
    b = GraphBuilder("g")
    bias, multiplier, result = ending(3, w[1] * w[2] * w[3], w[0], dtype, "i8")
    constants = [b.constant(array) for array in (numbers(4, "i8", w), bias, multiplier)]
    node = b.add(
        "qconv2d",
        [b.input("x", TensorType(dtype, x)), *constants],
        stride=stride,
        dilation=dilation,
        pads=pads,
        groups=groups,
        **result,
    )
    return explicit_padding(b.finish([node]))


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "graph",
    [
        graph_of((1, 11, 9, 3), (10, 7, 7, 3), stride=(2, 2), pads=(3, 3, 3, 3)),
        graph_of((2, 9, 9, 8), (12, 3, 3, 4), groups=2, pads=(1, 1, 1, 1), dtype="i8"),
        graph_of((1, 9, 12, 5), (20, 3, 3, 5), dilation=(2, 3), pads=(2, 3, 2, 3)),
        graph_of((2, 5, 13, 6), (9, 1, 7, 6), pads=(0, 3, 0, 3)),
        graph_of((1, 8, 8, 20), (33, 1, 1, 20), stride=(2, 2)),
        graph_of((1, 3, 3, 1), (2, 1, 2, 1)),  # sums of fewer terms than an instruction takes
    ],
    ids=["first", "groups", "dilated", "1x7", "strided 1x1", "two terms"],
)
def test_every_bit_is_the_definitions(graph: Graph) -> None:
    output, name = graph.outputs[0], graph.inputs[0]
    lowered = lower_graph(graph, Packing(16), {output: IM2ROW})
    families = [spec.family for spec in lowered.specs]
    x = numbers(9, graph.types[name].dtype, graph.shape(name))
    (computed,) = ProgramRunner(lowered, host_machine(), parts=3).run(x)
    (expected,) = run(graph, x)

    assert "copy_8" in families and any(family.startswith("qconv2d") for family in families)
    assert np.array_equal(computed, expected) and np.unique(computed).size > 1


def test_only_where_there_is_a_matrix_to_make() -> None:
    def choices(graph: Graph) -> tuple[str, ...]:
        return im2row_choices(graph.producers()[graph.outputs[0]], graph)

    assert choices(graph_of((1, 8, 8, 20), (33, 3, 3, 20))) == (IM2ROW,)
    assert choices(graph_of((1, 8, 8, 20), (33, 1, 1, 20))) == ()
    assert choices(graph_of((1, 8, 8, 20), (20, 3, 3, 1), groups=20)) == ()
