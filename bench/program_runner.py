"""Run a model's steps one by one with kernels compiled in memory: no linker, no engine, and every store is checked.

What the engine in C does, done slowly and suspiciously: memory starts as a pattern that no kernel may rely on, guards
lie around every buffer, and each step's rows are computed in parts, the last first.
"""

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

from bench.jit import Compiled
from mavcg.choose.lowering.context_memory import hold_in_context
from mavcg.choose.lowering.lower import LoweredGraph, lower_graph
from mavcg.choose.lowering.pack_weights import pack_weights
from mavcg.choose.lowering.step_list import plan_lowered
from mavcg.graph import DTYPES, Array
from mavcg.importers.load import import_model
from mavcg.kernels.builder.emit import kernel_name
from mavcg.kernels.builder.module_text import add_core_attributes
from mavcg.kernels.registry import emit
from mavcg.passes.graph.pipeline import optimise
from mavcg.runtime.kernel_call import KernelCall
from mavcg.specs.kernel import KernelSpec, Machine, Packing
from mavcg.specs.model_program import (
    ONLY_COPY,
    WRITTEN_COPY,
    OperandAddress,
    Program,
    ProgramLoop,
    ProgramPhase,
    ProgramStep,
)

Run = Callable[..., tuple[Array, ...]]
_GUARD = 256  # bytes on either side of a buffer
_UNTOUCHED = 0x5A
# A NaN as f32 and f64, -1 as an integer: a kernel that reads what nobody wrote shows it.
STALE = 0xFF


def model_runner(
    path: Path, machine: Machine, parts: int = 2, shapes: Mapping[str, tuple[int, ...]] = MappingProxyType({})
) -> Run:
    """Import, optimise and compile a model file for one kind of core; returns the function that computes its outputs.

    parts: number of parts that each step's rows are divided into. shapes: of inputs. Raises: MavcgError if the model is
    refused.
    """
    graph = optimise(import_model(path, shapes))
    return ProgramRunner(lower_graph(graph, Packing(lanes=16 if machine.arch == "x86_64" else 8)), machine, parts).run


class KernelAddresses(Protocol):
    """Interface to compiled kernels in memory."""

    def address(self, name: str) -> int:
        """Return the address of a kernel, by its linkage name without the version."""
        ...


class ProgramRunner:
    """A model's steps with their kernels, compiled for one kind of core, or given; states stay from run to run."""

    def __init__(
        self, lowered: LoweredGraph, machine: Machine, parts: int = 2, kernels: KernelAddresses | None = None
    ) -> None:
        model = hold_in_context(plan_lowered(lowered))
        self.program, self.parts = model.program, parts
        self.kernels = compiled(lowered.specs, machine) if kernels is None else kernels
        self.constants = GuardedMemory(pack_weights(model.memory, lowered.graph.constants).tobytes())
        self.states, self.turn = GuardedMemory(bytes([STALE]) * model.program.state_bytes), 0
        for state in model.program.states:
            packed, size = self.constants.bytes(), state.type.bytes
            first = bytes(size) if state.initial is None else packed[state.initial : state.initial + size]
            self.states.write(state.offset, first)

    def run(self, *arrays: Array) -> tuple[Array, ...]:
        """Return the outputs.

        Raises: AssertionError if a kernel writes outside of its output, or into an input or constant.
        """
        program = self.program
        for tensor, array in zip(program.inputs, arrays, strict=True):
            given = np.asarray(array)
            want = DTYPES[tensor.type.dtype]
            assert given.shape == tensor.type.shape and given.dtype == want, (
                f"input {tensor.name} is {given.dtype}{list(given.shape)} where {tensor.type} is expected"
            )
        inputs = [GuardedMemory(np.ascontiguousarray(array).tobytes()) for array in arrays]
        outputs = [GuardedMemory(bytes([STALE]) * tensor.type.bytes) for tensor in program.outputs]
        arena = GuardedMemory(bytes([STALE]) * program.arena_bytes)
        scratch = GuardedMemory(bytes([STALE]) * program.scratch_bytes)
        fault, counted = GuardedMemory(bytes(4)), GuardedMemory(bytes([STALE]) * 8 * program.counted)

        def pointer(operand: OperandAddress) -> int:
            if operand.base == "state":
                copy = 0 if operand.index == ONLY_COPY else self.turn ^ (operand.index == WRITTEN_COPY)
                return self.states.pointer + operand.offset + copy * program.swapped_bytes
            if operand.base == "counted":
                return counted.pointer + 8 * operand.index
            buffers = {
                "arena": [arena],
                "constants": [self.constants],
                "input": inputs,
                "output": outputs,
                "fault": [fault],
            }
            return buffers[operand.base][operand.index].pointer + operand.offset

        for phase, iterations in self._phases(pointer):
            step = program.steps[phase.step]
            moved = [sum(iterations[loop] * stride for loop, stride in operand.strides) for operand in phase.operands]
            pointers = [pointer(operand) + offset for operand, offset in zip(phase.operands, moved, strict=True)]
            for call in phase_calls(step, phase, pointers, scratch.pointer, self.parts, self.kernels):
                call()
            assert fault.unchanged, f"{step.name}: an index does not exist"
            for memory in (arena, scratch, self.states, counted, *outputs):
                assert memory.guarded, f"{step.name}: {step.kernel} writes outside its buffer"
            for memory in (self.constants, *inputs):
                assert memory.unchanged, f"{step.name}: {step.kernel} writes to an input or constant"
        self.turn ^= 1
        lengths = np.frombuffer(counted.bytes(), np.int64)
        made = list[Array]()
        for memory, tensor in zip(outputs, program.outputs, strict=True):
            array = np.frombuffer(memory.bytes(), DTYPES[tensor.type.dtype]).reshape(tensor.type.shape)
            axis = tensor.counted_axis
            made.append(array if axis is None else np.take(array, range(lengths[tensor.counted]), axis))
        return tuple(made)

    def _phases(self, pointer: Callable[[OperandAddress], int]) -> Iterator[tuple[ProgramPhase, dict[int, int]]]:
        """Yield the phases to run, with the iterations of their loops."""
        phases, iterations = phases_of(self.program), dict[int, int]()

        def body(begin: int, end: int, loops: Sequence[ProgramLoop]) -> Iterator[tuple[ProgramPhase, dict[int, int]]]:
            number = begin
            while loops:
                loop, inside = loops[0], sum(other.begin < loops[0].end for other in loops)
                yield from ((phase, iterations) for phase in phases[number : loop.begin])
                for iteration in range(loop.trips):
                    iterations[loop.number] = iteration
                    if loop.condition is not None and not ctypes.c_uint8.from_address(pointer(loop.condition)).value:
                        break
                    yield from body(loop.begin, loop.end, loops[1:inside])
                number, loops = loop.end, loops[inside:]
            yield from ((phase, iterations) for phase in phases[number:end])

        yield from body(0, len(phases), self.program.loops)


def phases_of(program: Program) -> Sequence[ProgramPhase]:
    """Return the order of execution: the phases of the program, or each step as a whole."""
    whole = (ProgramPhase(number, 0, step.rows, step.operands) for number, step in enumerate(program.steps))
    return program.phases or tuple(whole)


def phase_calls(
    step: ProgramStep,
    phase: ProgramPhase,
    pointers: Sequence[int],
    scratch: int,
    parts: int,
    kernels: KernelAddresses | None,
) -> list[Callable[[], object]]:
    """Return the calls that compute a phase: its rows in `parts` parts, the last part first, or one call that moves
    bytes.

    pointers: addresses of the phase's operands.
    """
    if phase.moved_bytes:
        assert abs(pointers[0] - pointers[1]) >= phase.moved_bytes, f"{step.name}: a move onto itself"
        return [partial(ctypes.memmove, pointers[1], pointers[0], phase.moved_bytes)]
    assert kernels
    call = KernelCall(kernels.address(step.kernel), pointers, scratch)
    edges = [phase.first_row + phase.rows * part // parts for part in range(parts + 1)]
    return [
        partial(call, begin, end) for begin, end in reversed(list(zip(edges, edges[1:], strict=False))) if begin < end
    ]


def compiled(specs: Sequence[KernelSpec], machine: Machine) -> Compiled | None:
    """Return the compiled kernels of these specs; None if there are none."""
    module = ir.Module("kernels")
    module.triple = llvm.get_default_triple()
    for spec in {kernel_name(spec): spec for spec in specs}.values():
        emit(module, spec, machine)
    return Compiled(add_core_attributes(module, machine), machine) if specs else None


class KernelStore:
    """Kernels of one kind of core, each compiled at its first use and kept, to be shared by many small programs."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._compiled: dict[str, Compiled] = {}

    def add(self, specs: Sequence[KernelSpec]) -> None:
        """Compile those kernels of these specs that are not there yet."""
        new = {kernel_name(spec): spec for spec in specs if kernel_name(spec) not in self._compiled}
        made = compiled(list(new.values()), self.machine)
        self._compiled |= {name: made for name in new if made is not None}

    def address(self, name: str) -> int:
        """Return the address of a kernel that was added."""
        return self._compiled[name].address(name)


class GuardedMemory:
    """Bytes between guard regions, aligned to 64."""

    def __init__(self, content: bytes) -> None:
        self.size, self.first = len(content), content
        self.store = np.full(self.size + 2 * _GUARD + 64, _UNTOUCHED, np.uint8)
        self.start = -self.store.ctypes.data % 64 + _GUARD
        self.store[self.start : self.start + self.size] = np.frombuffer(content, np.uint8)

    @property
    def pointer(self) -> int:
        return int(self.store.ctypes.data) + self.start

    @property
    def guarded(self) -> bool:
        before, after = self.store[: self.start], self.store[self.start + self.size :]
        return bool((before == _UNTOUCHED).all() and (after == _UNTOUCHED).all())

    @property
    def unchanged(self) -> bool:
        return self.guarded and self.bytes() == self.first

    def write(self, at: int, content: bytes) -> None:
        """Set some bytes, from byte `at` on."""
        self.store[self.start + at : self.start + at + len(content)] = np.frombuffer(content, np.uint8)

    def fill(self, value: int) -> None:
        """Set all bytes."""
        self.store[self.start : self.start + self.size] = value

    def bytes(self) -> bytes:
        return self.store[self.start : self.start + self.size].tobytes()
