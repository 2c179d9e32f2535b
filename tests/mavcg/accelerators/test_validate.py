"""Validation accepts what strides pass over on chip, and finds instructions that are wrong or lacking."""

from dataclasses import replace

import numpy as np

from mavcg.accelerators.codegen.generate import generate
from mavcg.accelerators.groups import ORDERS, FusedGroup, GroupTile
from mavcg.accelerators.image.program import AccelProgram
from mavcg.accelerators.target import find_target
from mavcg.accelerators.validate import validate_program
from mavcg.accelerators.xgraph import Parameters, XGraph, XNode


def strided() -> tuple[XGraph, AccelProgram]:
    """A convolution whose only reader takes every second row and column, both in one group."""
    numbers = np.random.default_rng(0)
    nodes = (
        XNode("x", "input", (), (1, 9, 9, 4), radix=4),
        XNode("a", "conv", ("x",), (1, 9, 9, 5), radix=4, weight_radix=(7,)),
        XNode("b", "conv", ("a",), (1, 5, 5, 3), stride=(2, 2), radix=4, weight_radix=(7,)),
    )
    parameters = {
        name: Parameters(numbers.integers(-99, 99, (o, 1, 1, i), np.int8), np.zeros(o, np.int32))
        for name, o, i in (("a", 5, 4), ("b", 3, 5))
    }
    graph = XGraph("strided", nodes, ("b",), parameters)
    group = FusedGroup(("a", "b"), "conv+conv", GroupTile(1, 9, 12, 12, ORDERS[1]))
    return graph, generate(graph, [group], find_target("zu2"))[0]


IMAGE = {"x": np.random.default_rng(1).standard_normal((1, 9, 9, 4)).astype(np.float32)}


def test_pixels_that_nobody_reads_need_not_be_computed() -> None:
    graph, program = strided()

    validation = validate_program(program, graph, IMAGE)

    assert (validation.layers, validation.differences) == (2, ())


def test_a_wrong_field_is_found_with_its_instruction() -> None:
    graph, program = strided()
    at = next(i for i, one in enumerate(program.instructions) if one.origin is not None and one.origin.node == 2)
    wrong = replace(program.instructions[at], values={**program.instructions[at].values, "hi": -120})
    code = (*program.instructions[:at], wrong, *program.instructions[at + 1 :])

    (found,) = validate_program(replace(program, instructions=code), graph, IMAGE).differences

    assert found.node == "b" and f"instruction {at}" in found.first


def test_a_node_that_no_instruction_computes_is_found() -> None:
    graph, program = strided()
    code = tuple(
        replace(one, origin=None) if one.origin and one.origin.node == 1 else one for one in program.instructions
    )

    (found,) = validate_program(replace(program, instructions=code), graph, IMAGE).differences

    assert (found.node, found.elements, found.first) == ("a", 9 * 9 * 5, "never computed")
