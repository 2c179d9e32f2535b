"""Run the networks of an application in one memory, with kernels that are compiled in memory; every store is checked.

What the engine in C does for an application, done slowly and suspiciously (program_runner.py does so for a network):
networks that may run at the same time, and stages of pipelines, are interleaved at random, a call of a kernel at a
time; memory is poisoned before each turn; a call may change bytes of its own network alone.
"""

import random
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from bench.program_runner import STALE, GuardedMemory, KernelAddresses, phase_calls, phases_of
from mavcg.choose.lowering.pack_weights import pack_weights
from mavcg.choose.plan import Plan
from mavcg.graph import DTYPES, Array
from mavcg.runtime.application_text import ApplicationProgram, PlacedNetwork
from mavcg.specs.model_program import OperandAddress, ProgramPhase

Outputs = list[tuple[bytes, ...]]  # of each frame


class ApplicationRunner:
    """Networks placed in one memory, with compiled kernels for all of them.

    parts: number of parts that a phase's rows are divided into.
    """

    def __init__(
        self,
        application: ApplicationProgram,
        networks: Sequence[Plan],
        kernels: KernelAddresses,
        parts: int,
    ) -> None:
        self.application, self.kernels, self.parts = application, kernels, parts
        self.constants = [
            GuardedMemory(pack_weights(each.memory, each.lowered.graph.constants).tobytes()) for each in networks
        ]
        self.arena = GuardedMemory(bytes([STALE]) * application.arena_bytes)

    def run(self, frames: Mapping[int, Sequence[Array]], generator: random.Random) -> dict[int, Outputs]:
        """Run networks, given by number, at the same time, each on its frames; memory holds poison bytes before.

        Raises: AssertionError if a call writes outside of its network's memory, or if an index that was read or
        computed at run time does not exist; there are no outputs then.
        """
        self.arena.fill(STALE)
        outputs: dict[int, Outputs] = {number: [] for number in frames}
        running = [self._network_run(number, own, outputs[number], generator) for number, own in frames.items()]
        while running:
            chosen = generator.choice(running)
            if next(chosen, "ended") == "ended":
                running.remove(chosen)
        return outputs

    def _network_run(
        self, number: int, frames: Sequence[Array], outputs: Outputs, generator: random.Random
    ) -> Iterator[None]:
        """Run all frames of a network, as a pipeline if it has stages; yields after each call."""
        program = self.application.networks[number].program
        bounds = [(stage.begin, stage.end) for stage in program.stages] or [(0, len(program.steps))]
        made = [[GuardedMemory(bytes([STALE]) * t.type.bytes) for t in program.outputs] for _ in frames]
        fault = GuardedMemory(bytes(4))  # one a context, as the engine has it
        done, running = [0] * len(bounds), dict[int, Iterator[None]]()
        while done[-1] < len(frames):
            ready = [stage for stage in range(len(done)) if stage in running or _can_begin(stage, done, len(frames))]
            stage = generator.choice(ready)
            if stage not in running:
                frame = done[stage]
                running[stage] = self._stage_run(number, bounds[stage], frame, frames[frame], made[frame], fault)
            if next(running[stage], "ended") == "ended":
                del running[stage]
                done[stage] += 1
            yield
        outputs += [tuple(memory.bytes() for memory in each) for each in made]

    def _stage_run(
        self,
        number: int,
        bounds: tuple[int, int],
        frame: int,
        x: Array,
        outputs: Sequence[GuardedMemory],
        fault: GuardedMemory,
    ) -> Iterator[None]:
        """Run the steps of a stage for one frame; yields after each call."""
        network, constants = self.application.networks[number], self.constants[number]
        program = network.program
        image = GuardedMemory(np.ascontiguousarray(x, DTYPES[program.inputs[0].type.dtype]).tobytes())
        scratch = GuardedMemory(bytes([STALE]) * program.scratch_bytes)

        def pointer(operand: OperandAddress) -> int:
            if operand.base == "arena":
                return self.arena.pointer + network.arena_offset + _of_frame(network, operand.offset, frame)
            buffers = {"constants": [constants], "input": [image], "output": outputs, "fault": [fault]}
            return buffers[operand.base][operand.index].pointer + operand.offset

        for phase in self._phases(number, bounds):
            step = program.steps[phase.step]
            pointers = [pointer(operand) for operand in phase.operands]
            for call in phase_calls(step, phase, pointers, scratch.pointer, self.parts, self.kernels):
                others = self._others(network)
                call()
                assert self.arena.guarded and scratch.guarded and all(memory.guarded for memory in outputs), (
                    f"{program.name}: {step.name}: {step.kernel} writes outside its buffer"
                )
                assert self._others(network) == others, f"{program.name}: {step.name}: writes to another network"
                assert constants.unchanged and image.unchanged, f"{program.name}: {step.name}: writes to an input"
                assert fault.unchanged, f"{program.name}: {step.name}: an index does not exist"
                yield

    def _phases(self, number: int, bounds: tuple[int, int]) -> list[ProgramPhase]:
        return [p for p in phases_of(self.application.networks[number].program) if bounds[0] <= p.step < bounds[1]]

    def _others(self, network: PlacedNetwork) -> tuple[bytes, bytes]:
        """Return the bytes of memory that do not belong to the network."""
        content = self.arena.bytes()
        return content[: network.arena_offset], content[network.arena_offset + network.program.arena_bytes :]


def _can_begin(stage: int, done: Sequence[int], frames: int) -> bool:
    """True if a stage may begin its next frame: the previous stage is done with it, and buffers are free."""
    frame = done[stage]
    if frame == (done[stage - 1] if stage else frames):
        return False
    return all(frame <= done[later] + later - stage for later in range(stage + 1, len(done)))


def _of_frame(network: PlacedNetwork, offset: int, frame: int) -> int:
    """Return an offset in the copy that a frame uses of a buffer between stages."""
    for ring in network.program.rings:
        if ring.offset <= offset < ring.offset + ring.stride:
            return offset + frame % ring.copies * ring.stride
    return offset
