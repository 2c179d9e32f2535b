"""Programs for VTA compute the reference's bits: random networks and groups, also with units in any order."""

import random
from pathlib import Path

import numpy as np
import pytest

from mavcg.accelerators.codegen.division import divide
from mavcg.accelerators.codegen.generate import generate
from mavcg.accelerators.codegen.vta_nodes import is_refused_group, with_vta_nodes
from mavcg.accelerators.fixed_point import evaluate
from mavcg.accelerators.group_search import choose_groups
from mavcg.accelerators.groups import ORDERS, FusedGroup, GroupTile
from mavcg.accelerators.image.assembly import assemble, disassemble
from mavcg.accelerators.image.elf_file import elf_bytes, parse_elf, read_elf, write_elf
from mavcg.accelerators.image.program import AccelProgram
from mavcg.accelerators.images import seeded_images
from mavcg.accelerators.isa.vta import encode_vta
from mavcg.accelerators.load import xgraph_of
from mavcg.accelerators.quantise import quantise
from mavcg.accelerators.simulator.cycles import simulate
from mavcg.accelerators.simulator.functional import execute, read_output, write_inputs
from mavcg.accelerators.simulator.vta_functional import execute_vta_job
from mavcg.accelerators.target import find_target
from mavcg.accelerators.validate import validate_program
from mavcg.accelerators.xgraph import XGraph
from mavcg.errors import MavcgError
from mavcg.graph import Array
from tests.mavcg.accelerators.random_networks import random_inputs, random_network, with_batch
from tests.mavcg.accelerators.small_network import network

TARGET = find_target("vta")


def random_vta_program(seed: int, images: int = 1) -> tuple[XGraph, AccelProgram] | None:
    """A random network with groups of one to three nodes, as many as VTA keeps on chip; None if VTA computes none."""
    chance = random.Random(seed)
    graph = with_vta_nodes(with_batch(random_network(chance), images), TARGET)
    groups = []
    for segment in divide(graph).segments:
        names = segment.nodes
        while names:
            count = chance.choice((1, 2, 3))
            while count > 1 and is_refused_group(graph, names[:count]):
                count -= 1
            sizes = chance.choice((1, 4, 64)), chance.choice((1, 7, 64)), chance.choice((16, 64, 1024))
            tile = GroupTile(*sizes, chance.choice((16, 4096)), chance.choice(ORDERS))
            groups.append(FusedGroup(names[:count], "random", tile))
            names = names[count:]
    return (graph, generate(graph, groups, TARGET)[0]) if groups else None


def outputs_in_any_order(program: AccelProgram, inputs: dict[str, Array], seed: int) -> dict[str, Array]:
    """Outputs of a program whose units run in a random order, as far as tokens permit."""
    features, written = np.full(program.feature_bytes, 0x2A, np.int8), np.zeros(program.feature_bytes, np.uint8)
    outputs = {}
    for job in program.jobs():
        write_inputs(job, inputs, features, written)
        execute_vta_job(job, features, None, random.Random(seed))
        for name in job.outputs:
            outputs[name] = read_output(job, name, features)
    return outputs


def check(seed: int, images: int = 1) -> bool:
    """Compare a random program with the reference; False if there is none. images: size of the batch."""
    made = random_vta_program(seed, images)
    if made is None:
        return False
    graph, program = made
    expected = evaluate(graph, random_inputs(graph, seed), TARGET.rounding)
    given = {name: expected[name] for name in program.inputs}
    assert all(tensor.images == images for tensor in program.tensors)
    for name, values in execute(program, given).items():
        assert np.array_equal(values, expected[name]), f"seed {seed}, {name}"
    for name, values in outputs_in_any_order(program, given, seed).items():
        assert np.array_equal(values, expected[name]), f"seed {seed}, {name}, units in another order"
    return True


def test_random_programs_have_the_references_bits() -> None:
    assert check(1)
    assert check(1, images=3)


@pytest.mark.long
def test_many_random_programs_have_the_references_bits() -> None:
    assert sum(check(seed, images=1 + seed % 3) for seed in range(4, 44)) > 30


def test_every_tile_of_a_network_has_the_references_bits_and_the_cpu_computes_the_rest() -> None:
    real = xgraph_of(network(), False)
    graph = with_vta_nodes(quantise(real, seeded_images(real, 1), TARGET.rounding).graph, TARGET)
    program, groups = generate(graph, choose_groups(graph, TARGET, "exact", lambda _: None).groups, TARGET)

    validation = validate_program(program, graph, seeded_images(graph, 1, seed=1)[0])

    assert (validation.layers, validation.differences) == (6, ())
    assert ("dw", "add", "max_pool2d") in [group.nodes for group in groups]  # the ALU's work stays in the accumulators
    assert "resample" in program.cpu_nodes and "avg_pool2d" in program.cpu_nodes


def test_a_program_survives_elf_and_assembly(tmp_path: Path) -> None:
    made = random_vta_program(0)
    assert made is not None
    path = tmp_path / "net.elf"

    write_elf(made[1], path)

    assert read_elf(path) == made[1]
    assert assemble("".join(disassemble(made[1])), "net.s") == made[1]


@pytest.mark.long
def test_damaged_files_run_or_are_refused() -> None:
    made = random_vta_program(1)
    assert made is not None
    graph, program = made
    images = evaluate(graph, random_inputs(graph, 1), TARGET.rounding)
    given, whole, chance, refused = {n: images[n] for n in program.inputs}, elf_bytes(program), random.Random(0), 0
    code = range(whole.index(encode_vta(program.instructions)), len(whole) // 2)
    for _ in range(30):
        damaged = bytearray(whole)
        damaged[chance.choice(code)] ^= 1 << chance.randrange(8)
        try:
            read = parse_elf(bytes(damaged), "net.elf")
            simulate(read)
            execute(read, given)
        except MavcgError:
            refused += 1
    assert refused > 5
