"""Line fills beside arithmetic on a simulated core: the exposed part of their time, by memory level."""

from collections.abc import Sequence

from mavcg.assembly.code_image import assemble_image
from mavcg.cost.board_model import core_model
from mavcg.cost.core_facts import simulated_core
from mavcg.hardware.board import Board
from mavcg.hardware.machine import LINE_BYTES
from mavcg.lab.simulate.call_arguments import call_state
from mavcg.lab.simulate.simulated_program import SimulatedProgram
from mavcg.lab.simulate.simulation import parse_arguments_of_call
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing

MULTIPLY_ADDS = 24  # beside a line of weights: a register tile of 6 pixels by 4 vectors
AHEAD = 4096
_BEYOND = 32 << 20


def stream(prefetched: bool) -> Sequence[str]:
    """Return the body of a loop over cache lines."""
    step = MULTIPLY_ADDS // 4
    body = []
    for k in range(4):
        body.append(f"ldr q{k}, [x1, #{16 * k}]")
        body += [f"fmla v{8 + n}.4s, v{k}.4s, v7.s[{n % 4}]" for n in range(step * k, step * (k + 1))]
    if prefetched:
        body.insert(step + 1, f"prfm pldl1keep, [x1, #{AHEAD}]")
    return (*body, f"add x1, x1, #{LINE_BYTES}")


def exposed(board: Board, number: int) -> dict[str, float]:
    """Return the exposed share of a line's time: from level 2, from memory, from memory with prefetches.

    A line's time is that of the board's cluster, as planners use it. prefetch_cycles: of a prefetch of a line in level
    2. For a core without level 2 the next level is used instead.
    """
    name = board.clusters[number].core
    core = load_core(name)
    lines = [("plain", False), ("ahead", True)]
    text = "".join(
        f"\t.globl {label}\n\t.type {label}, %function\n{label}:\n1:\t"
        + "\n\t".join((*stream(ahead), "subs x0, x0, #1", "b.ne 1b"))
        + "\n\tret\n"
        for label, ahead in lines
    )
    image = assemble_image("\t.text\n" + text)
    facts = simulated_core(core, board)
    program = SimulatedProgram(image, load_timing(core), facts)

    def cycles(function: str, size: int) -> float:
        count = size // LINE_BYTES
        state = call_state(parse_arguments_of_call(f"i:{count} buf:{size + 2 * AHEAD}"))
        for _ in range(2):
            counts = program.call(image.symbols[function], state)
        return counts.cycles / count

    levels = core_model(board, number)
    behind = (levels.levels[0], levels.levels[-1])  # whatever lies between them: streams come from beyond the last
    far, farthest = (LINE_BYTES / (level.bandwidth_gb_per_s / levels.ghz) for level in behind)
    l1, l2 = facts.levels[0].size, facts.levels[1].size
    near, second = cycles("plain", l1 // 2), cycles("plain", l2 * 3 // 4)
    memory = min(_BEYOND, 16 * max(level.size for level in facts.levels))
    return {
        "from_l2": round((second - near) / far, 3),
        "from_memory": round((cycles("plain", memory) - near) / farthest, 3),
        "from_memory_prefetched": round((cycles("ahead", memory) - near) / farthest, 3),
        "prefetch_cycles": round(cycles("ahead", l2 * 3 // 4) - second, 3),
    }
