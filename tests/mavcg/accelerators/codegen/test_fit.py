"""Groups that fit in on-chip memory only from its beginning."""

import numpy as np

from mavcg.accelerators.codegen.generate import generate
from mavcg.accelerators.group_search import choose_groups
from mavcg.accelerators.images import seeded_images
from mavcg.accelerators.load import xgraph_of
from mavcg.accelerators.quantise import quantise
from mavcg.accelerators.target import find_target
from mavcg.accelerators.validate import validate_program
from mavcg.graph import TensorType
from mavcg.graph.builder import GraphBuilder


def test_a_pool_over_more_than_half_of_the_memory_follows_other_code() -> None:
    """The pool's result, one word, was in the middle of the memory, beside which its input had no room."""
    machine = find_target("zu2")
    builder = GraphBuilder("pooled")
    x = builder.input("x", TensorType("f32", (1, 160, 160, 4)))
    weights = np.random.default_rng(0).normal(size=(8, 1, 1, 4)).astype(np.float32)
    made = builder.add("conv2d", [x, builder.constant(weights)])
    made = builder.add("reduce_mean", [made], axes=(1, 2), keepdims=True)
    real = xgraph_of(builder.finish([made]))
    graph = quantise(real, seeded_images(real, 1), machine.rounding).graph
    program, _ = generate(graph, choose_groups(graph, machine, "none", lambda _: None).groups, machine)

    validation = validate_program(program, graph, seeded_images(graph, 1, seed=1)[0])

    assert validation.differences == () and validation.layers == 2
