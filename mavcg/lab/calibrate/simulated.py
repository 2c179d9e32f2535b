"""Times loops on the timing models of `mavcg simulate`: the runner simulate:CORE."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from mavcg.assembly.code_image import CodeImage, assemble_image
from mavcg.cost.core_facts import SimulatedCore
from mavcg.hardware.machine import LINE_BYTES
from mavcg.hardware.timing import Timing
from mavcg.lab.calibrate.loops import SCRATCH_BYTES, WALKS, TimedLoop, Walk, loop_program
from mavcg.lab.simulate.call_arguments import BUFFERS, CallState
from mavcg.lab.simulate.simulated_program import SimulatedProgram

ABSENT = frozenset({"bf16", "i8mm"})  # extensions that the emulator does not execute


class SimulatedTimer:
    """A LoopTimer whose core is simulated."""

    def __init__(self, timing: Timing, core: SimulatedCore) -> None:
        self.timing, self.core = timing, core

    def cycles(self, loops: Sequence[TimedLoop]) -> Mapping[str, float]:
        """Implement `LoopTimer.cycles`."""
        program = loop_program(loops)
        image = _image(program.text)
        shared = SimulatedProgram(image, self.timing, self.core)
        found = {}
        for loop in loops:
            used = shared if loop.walk is None else SimulatedProgram(image, self.timing, self.core)
            found[loop.name] = _cycles(used, image.symbols[program.symbols[loop.name]], loop)
        return found


@lru_cache(maxsize=8)
def _image(text: str) -> CodeImage:
    return assemble_image(text, "the loops of a calibration")


def _cycles(program: SimulatedProgram, address: int, loop: TimedLoop) -> float:
    """Return the cycles of a body: those of a long call less those of a short one, which leaves the call itself out."""
    memory = bytes(SCRATCH_BYTES) if loop.walk is None else walk_memory(loop.walk, BUFFERS)

    def call(iterations: int) -> int:
        state = CallState((iterations, BUFFERS, loop.parameter), (), b"", ((BUFFERS, memory),))
        return program.call(address, state).cycles

    if loop.walk is not None and loop.walk.cold:  # once, because a second call would find the nodes of the first
        return call(loop.iterations) / (loop.iterations * loop.bodies)
    call(loop.warm + loop.iterations)
    short = call(loop.warm)
    return (call(loop.warm + loop.iterations) - short) / (loop.iterations * loop.bodies)


@lru_cache(maxsize=4)
def walk_memory(walk: Walk, address: int) -> bytes:
    """Return the memory of a walk: SCRATCH_BYTES with the first addresses, then the nodes, each with the next one's.

    address: of the memory. The walk goes around through all nodes, run by run, the runs in a random order.
    """
    runs = walk.bytes // walk.node_bytes // walk.run
    order = np.random.default_rng(runs).permutation(runs)
    nodes = (order[:, None] * walk.run + np.arange(walk.run)).reshape(-1)
    addresses = (address + SCRATCH_BYTES + nodes * walk.node_bytes).astype(np.uint64)
    words = np.zeros((SCRATCH_BYTES + walk.bytes) // 8, np.uint64)
    words[SCRATCH_BYTES // 8 + nodes * (walk.node_bytes // 8)] = np.roll(addresses, -1)
    words[:WALKS] = addresses[np.arange(WALKS) * len(addresses) // WALKS]
    return words.tobytes()


assert LINE_BYTES == Walk(0).node_bytes
