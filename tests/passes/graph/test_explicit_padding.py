"""Convolutions that pad: what else reads their image sees it without its border."""

from typing import Any

from mavcg.passes.graph.pads import explicit_padding


def test_an_image_that_is_the_residual_too_is_added_without_its_border(h: Any) -> None:
    graph = h.graph(
        """
        input %x: f32[1,4,4,1]
        const %w: f32[1,3,3,1] = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0}
        %y = conv2d(%x, %w, _, %x) pads=[1,1,1,1]
        return %y
        """
    )
    padded = explicit_padding(graph)

    assert padded.nodes[-1].inputs[3] == "x"
    h.same(graph, padded)
