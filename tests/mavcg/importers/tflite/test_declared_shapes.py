"""Shapes that a TFLite file declares for its tensors and that its operators contradict."""

from typing import Any

import pytest

from mavcg.importers.declared_shapes import DeclaredShapeError, GivenShapes
from mavcg.importers.tflite_support import part_graph, tflite_support

X, GOOD, BAD = (1, 4, 4, 3), (1, 2, 2, 3), (1, 2, 3, 3)


def pooled(writer: Any, declared: tuple[int, ...], free: tuple[int, ...] = (), name: str = "x") -> bytes:
    """x -> MAX_POOL_2D -> y. declared: y's shape. free: y's free dimensions."""
    x = writer.input(X, name=name)
    pool = {"filterHeight": 2, "filterWidth": 2, "strideH": 2, "strideW": 2}
    y = writer.op("MAX_POOL_2D", [x], options="Pool2DOptions", shape=declared, **pool)
    tensor = writer.graph.tensors[y]
    tensor.name = "y"
    if free:
        tensor.shapeSignature = [-1 if d in free else n for d, n in enumerate(declared)]
    return writer.bytes(y)  # type: ignore[no-any-return]


@pytest.mark.parametrize(("declared", "free"), [(GOOD, ()), ((), ()), (BAD, (2,)), ((1, 2, 0, 3), ())])
def test_shapes_that_are_declared_right(check: Any, writer: Any, declared: Any, free: Any) -> None:
    """Without a shape, and in free dimensions, every length is right."""
    assert check.load(pooled(writer, declared, free)).shape("y") == GOOD


def test_contradictions_are_refused(check: Any, writer: Any) -> None:
    data = pooled(writer, BAD)

    words = r"node '0:y' \(MAX_POOL_2D\): the shape of tensor 1 'y' is 1x2x2x3, but the file declares 1x2x3x3; correct"
    with pytest.raises(DeclaredShapeError, match=words):
        check.load(data)
    assert check.load(data, GivenShapes(ignore_declared=True)).shape("y") == GOOD


def test_shapes_of_other_inputs_say_nothing(check: Any, writer: Any) -> None:
    """--shape may replace every length of a TFLite file; what the file declares is for its own."""
    assert check.load(pooled(writer, BAD), {"x": (5, 4, 4, 3)}).shape("y") == (5, 2, 2, 3)


def test_lengths_of_free_inputs_leave_the_others(check: Any, new_writer: Any) -> None:
    def data(declared: tuple[int, ...], free: tuple[int, ...]) -> bytes:
        writer = new_writer()
        pooled(writer, declared, free)
        writer.graph.tensors[0].shapeSignature = [-1, *X[1:]]
        return writer.bytes(1)  # type: ignore[no-any-return]

    assert check.load(data(GOOD, ()), {"x": (5, 4, 4, 3)}).shape("y") == (5, 2, 2, 3)
    with pytest.raises(DeclaredShapeError, match=r"5x2x2x3, but the file declares \?x2x3x3"):
        check.load(data(BAD, (0,)), {"x": (5, 4, 4, 3)})


def test_partial_builds_refuse_them_too(check: Any, writer: Any) -> None:
    check.path.write_bytes(pooled(writer, BAD))

    with pytest.raises(DeclaredShapeError, match="but the file declares 1x2x3x3"):
        tflite_support(check.path)
    support = tflite_support(check.path, GivenShapes(ignore_declared=True))
    graph, _, outputs = part_graph(support, (0,), "part")
    assert graph.shape(graph.outputs[0]) == GOOD and outputs == (1,)
