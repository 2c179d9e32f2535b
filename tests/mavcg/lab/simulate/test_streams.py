"""Copies and fills of blocks beyond the caches, against published rates of boards."""

import pytest

from mavcg.assembly.code_image import assemble_image
from mavcg.cost.core_facts import simulated_core
from mavcg.hardware.board import Board, Cluster
from mavcg.lab.simulate.call_arguments import call_state
from mavcg.lab.simulate.simulated_program import SimulatedProgram
from mavcg.lab.simulate.simulation import parse_arguments_of_call
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing

LOOPS = {
    "copy": "ldp q0, q1, [x1], #64; ldp q2, q3, [x1, #-32]; stp q0, q1, [x2], #64; stp q2, q3, [x2, #-32]",
    "fill": "stp q0, q0, [x2], #64; stp q0, q0, [x2, #-32]",
}
IMAGE = assemble_image(
    "\t.text\n"
    + "".join(
        f"\t.globl {name}\n\t.type {name}, %function\n{name}:\n1:\t"
        + "\n\t".join((*body.split("; "), "subs x0, x0, #64", "b.ne 1b", "ret\n"))
        for name, body in LOOPS.items()
    )
)
BLOCK = 1 << 20
# ThomasKaiser/sbc-bench, Results.md: standard memcpy and memset of tinymembench in MB/s, and the clock in GHz.
PUBLISHED = [
    ("cortex-a55", 1.908, 3670, 6360),  # Khadas VIM3L
    ("cortex-a55", 2.010, 3310, 6270),  # ODROID-C4
    ("cortex-a55", 1.800, 2980, 7650),  # Quartz64
    ("cortex-a72", 1.800, 4100, 9000),  # NanoPC T4
    ("cortex-a73", 1.800, 4120, 8610),  # ODROID-N2
]


@pytest.mark.parametrize(("core", "ghz", "copied", "filled"), PUBLISHED)
def test_large_blocks_take_what_boards_took(core: str, ghz: float, copied: float, filled: float) -> None:
    """The memory's bandwidth is what copies move, twice the figure; how near to it copies come and what a fill of the
    same memory reaches follow from prefetches, write streaming and line fills under way. Within a third."""
    cluster = Cluster(core, (0,), int(ghz * 1e6), l2_bytes=1 << 18, l2_cores=1, memory_gb_per_s=2 * copied / 1000)
    facts = load_core(core)
    board = Board("", "", "aarch64-linux-gnu.2.17", (cluster,))
    program = SimulatedProgram(IMAGE, load_timing(facts), simulated_core(facts, board))
    for name, published in (("copy", copied), ("fill", filled)):
        state = call_state(parse_arguments_of_call(f"i:{BLOCK} buf:{BLOCK}=0 buf:{BLOCK}=0"))
        cycles = program.call(IMAGE.symbols[name], state).cycles
        assert 0.75 <= BLOCK / (cycles / ghz) * 1000 / published <= 1.34
