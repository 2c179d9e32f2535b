"""Whole networks, quantised and fused by the exact search, compute the reference's bits in every layer."""

import pytest

from mavcg.accelerators.codegen.division import divide
from mavcg.accelerators.codegen.generate import generate
from mavcg.accelerators.group_search import choose_groups
from mavcg.accelerators.images import seeded_images
from mavcg.accelerators.load import xgraph_of
from mavcg.accelerators.networks import network
from mavcg.accelerators.quantise import quantise
from mavcg.accelerators.target import find_target
from mavcg.accelerators.validate import validate_program


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "target", "search"),
    [
        ("squeezenet", "zu2", "exact"),
        ("squeezenet", "zu9", "none"),
        ("mobilenet_v2", "zu2", "exact"),
        ("mobilenet_v2", "zu9", "paper"),
        ("yolo_small", "zu2", "exact"),
        ("googlenet", "zu2", "greedy"),
        ("resnet50", "zu2", "exact"),
    ],
)
def test_every_layer_has_the_references_bits(name: str, target: str, search: str) -> None:
    machine = find_target(target)
    real = xgraph_of(network(name))
    images = seeded_images(real, 1)
    graph = quantise(real, images, machine.rounding).graph
    program, _ = generate(graph, choose_groups(graph, machine, search, lambda _: None).groups, machine)

    validation = validate_program(program, graph, seeded_images(graph, 1, seed=1)[0])

    assert validation.differences == ()
    assert validation.layers == len(divide(graph).accelerator)
