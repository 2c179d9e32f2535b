"""Random programs for the hardware of the target `small`, and whether this machine can run it."""

import random

import pytest

from mavcg.accelerators.codegen.division import divide
from mavcg.accelerators.codegen.generate import generate
from mavcg.accelerators.image.program import AccelProgram
from mavcg.accelerators.rtl.model import verilator_program
from mavcg.accelerators.rtl.sizes import REFUSED
from mavcg.accelerators.rtl.verilog import yosys_program
from mavcg.accelerators.target import IsaTarget
from mavcg.errors import MavcgError
from tests.mavcg.accelerators.compiled import random_groups
from tests.mavcg.accelerators.random_networks import random_network


def needs_tools() -> None:
    """Skip the test where a program or package that makes and runs the hardware is missing."""
    pytest.importorskip("amaranth", reason="Amaranth is not installed: pip install 'mavcg[rtl]'")
    if yosys_program() is None or verilator_program() is None:
        pytest.skip("Yosys or Verilator is not installed: Debian's yosys and verilator")


def program_for(target: IsaTarget, seed: int) -> AccelProgram | None:
    """A random program; None where it does not fit, or has an instruction that the hardware does not execute."""
    chance = random.Random(seed)
    graph = random_network(chance, chance.choice((1, 2, 3, 7)))
    if not divide(graph).accelerator:
        return None
    try:
        program = generate(graph, random_groups(chance, graph), target)[0]
    except MavcgError as error:
        assert "does not fit on chip" in str(error), error
        return None
    return None if any(one.form.name in REFUSED for one in program.instructions) else program
