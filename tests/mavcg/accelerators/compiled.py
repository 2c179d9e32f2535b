"""Compile random networks with random groups, for the tests of files and simulators."""

import random
from dataclasses import replace

import numpy as np

from mavcg.accelerators.codegen.division import divide
from mavcg.accelerators.codegen.generate import generate
from mavcg.accelerators.fixed_point import evaluate
from mavcg.accelerators.groups import ORDERS, FusedGroup, GroupTile
from mavcg.accelerators.image.program import AccelProgram
from mavcg.accelerators.isa.datapath import datapath
from mavcg.accelerators.isa.forms import FORMS
from mavcg.accelerators.isa.instruction import AccelInstruction
from mavcg.accelerators.simulator.functional import execute
from mavcg.accelerators.target import IsaTarget
from mavcg.accelerators.xgraph import XGraph
from mavcg.errors import MavcgError
from mavcg.graph import Array
from tests.mavcg.accelerators.random_networks import (
    random_inputs,
    random_network,
    random_target,
    with_batch,
    with_host_nodes,
)
from tests.mavcg.accelerators.simulator.oracle import oracle_execute


def random_groups(chance: random.Random, graph: XGraph) -> list[FusedGroup]:
    """Groups of one to four consecutive nodes of a segment, with tiles of any size."""
    found = []
    for segment in divide(graph).segments:
        names = segment.nodes
        while names:
            count = chance.choice((1, 1, 1, 2, 3, 4))
            tile = GroupTile(
                chance.choice((1, 4, 8, 64)),
                chance.choice((1, 7, 64)),
                chance.choice((8, 64, 1024)),
                chance.choice((4, 4096)),
                chance.choice(ORDERS),
                chance.random() < 0.1,
            )
            found.append(FusedGroup(names[:count], "random", tile))
            names = names[count:]
    return found


def random_program(seed: int, mixed: bool = False, images: int = 1) -> tuple[XGraph, IsaTarget, AccelProgram] | None:
    """A compiled random network; None where it does not fit the random target.

    mixed: True for CPU nodes in between. images: size of the batch.
    """
    chance = random.Random(seed)
    target, graph = random_target(chance), with_batch(random_network(chance), images)
    if mixed:
        graph = with_host_nodes(graph, chance)
    if not divide(graph).accelerator:
        return None
    try:
        return graph, target, generate(graph, random_groups(chance, graph), target)[0]
    except MavcgError as error:
        assert "does not fit on chip" in str(error), error
        return None


def check_against_reference(graph: XGraph, target: IsaTarget, program: AccelProgram, seed: int) -> int:
    """Execute in program order, and by the oracle in a random order; every tile and output has the reference's bits.

    Returns: the number of tiles.
    """
    images = random_inputs(graph, seed)
    expected = evaluate(graph, images, target.rounding)
    one_map = {name: values.reshape(-1, *values.shape[2:]) for name, values in expected.items()}
    covered = {name: np.zeros(one_map[name].shape, bool) for name in divide(graph).accelerator}
    tiles = 0

    def compare(index: int, one: AccelInstruction, made: Array) -> None:
        nonlocal tiles
        tiles += 1
        origin = one.origin
        assert origin is not None
        name = program.nodes[origin.node]
        at = tuple(
            slice(first, first + length)
            for first, length in zip((origin.row, origin.column, origin.channel), made.shape, strict=True)
        )
        assert np.array_equal(one_map[name][at], made), f"seed {seed}, {name}, instruction {index}"
        covered[name][at] = True

    given = {name: expected[name] for name in program.inputs}  # what the CPU computes is the reference's
    runs = (execute(program, given, compare), oracle_execute(program, given, compare, seed=seed))
    for run in runs:
        for name, values in run.items():
            assert np.array_equal(values, expected[name]), f"seed {seed}, output {name}"
    kinds, stored = graph.by_name(), {tensor.name for tensor in program.tensors}
    for name, computed in covered.items():  # strides may pass over pixels of what stays on chip
        if kinds[name].kind != "concat":
            assert computed.all() if name in stored else computed.any(), f"seed {seed}, {name}"
    return tiles


def with_huge_windows(program: AccelProgram) -> AccelProgram:
    """A program that ends with pooling over windows of a million positions, one for each word of feature memory."""
    words = datapath(program.target).feature_words
    *code, end = program.instructions
    made = next(one for one in reversed(code) if one.form.unit in ("conv", "pool") and not one.values.get("partial"))
    tile = {"from": made.values["to"], "from_row": 1, "from_block": 1, "rows": 1, "columns": 1, "channels": 1}
    tile |= {"to": 0, "to_row": 1, "to_block": 1, "out_rows": words, "out_columns": 1}
    window = dict.fromkeys(("kernel_rows", "kernel_columns"), 1023)
    window |= dict.fromkeys(("stride_rows", "stride_columns", "dilation_rows", "dilation_columns"), 1)
    form = FORMS["pool.max"]
    rest = dict.fromkeys(form.by_name, 0) | {"lo": -128, "hi": 127}
    return replace(program, instructions=(*code, AccelInstruction(form, rest | tile | window), end))
