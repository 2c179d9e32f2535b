"""A run of a model library on a simulated core, on one thread: cycles of each step by the engine's own profile."""

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mavcg.assembly.code_image import CodeImage
from mavcg.errors import MavcgError
from mavcg.hardware.board import Board
from mavcg.hardware.core import Core
from mavcg.hardware.timing import Timing
from mavcg.simulate.call_arguments import CallState, moderate_lanes
from mavcg.simulate.core_facts import SimulatedCore, simulated_core
from mavcg.simulate.engine_host import EngineHost, system_call
from mavcg.simulate.program_image import constructors, read_program
from mavcg.simulate.run import INSTRUCTION_LIMIT, CallCounts, SimulatedProgram

# Offsets in mavcg_model_table, mavcg_tensor and mavcg_step (runtime/csrc/engine_api.h), of 64-bit targets.
_COUNTS, _INPUTS, _OUTPUTS, _STEPS, _CREATE, _PROFILE, _ERROR_TEXT = 4, 24, 32, 40, 72, 104, 128
_TENSOR_BYTES, _TENSOR_SIZE = 24, 32
_STEP_SIZE = 48
_OPTIONS_SIZE = 24
# Data of libc that the selector reads where it is there: the environment; where the thread keeps its CPU's number.
_PROCESS_DATA = ("environ", "__environ", "__rseq_offset", "__rseq_size")
RSEQ = (0x400, 32)  # from the thread pointer, in zeroes: CPU 0


@dataclass(frozen=True)
class SimulatedStep:
    """A step of a model and its simulated cycles."""

    name: str
    op: str
    kernel: str
    cycles: float


@dataclass(frozen=True)
class ModelSimulation:
    """A simulated run of a model. counts: of the whole run; its cycles are those of the steps and of the engine."""

    file: str
    core: str
    board: str
    steps: tuple[SimulatedStep, ...]
    counts: CallCounts
    figures: SimulatedCore
    outputs: tuple[bytes, ...] = ()


def simulate_model(
    path: Path,
    core: Core,
    timing: Timing,
    board: Board,
    warm: int = 1,
    limit: int = INSTRUCTION_LIMIT,
    progress: Callable[[str], None] = lambda what: None,
) -> ModelSimulation:
    """Simulate a run of a model library on one core of a board, every instruction of it.

    Inputs are moderate numbers. warm: runs before the one that is counted.
    Raises: MavcgError for a file that is no model library, and for a run that fails.
    """
    image = read_program(path, _PROCESS_DATA)
    if "mavcg_model_api" not in image.symbols:
        raise MavcgError(
            f"{path}: is no model library; give --function, or a library that `mavcg build` made of a model"
        )
    process = _Process(path, image, core, timing, simulated_core(core, board))
    progress("creating a context")
    table = process.call(image.symbols["mavcg_model_api"], (), limit)
    counts = [process.word32(table + _COUNTS + 4 * n) for n in range(3)]
    context = process.host.put(bytes(8))
    options = process.host.put(struct.pack("<iI", 1, 0).ljust(_OPTIONS_SIZE, b"\0"))
    process.checked(process.call(process.word(table + _CREATE), (options, context), limit), "create")
    pick = random.Random("inputs")
    inputs = process.tensors(table + _INPUTS, counts[0], lambda size: moderate_lanes(pick, size))
    outputs = process.tensors(table + _OUTPUTS, counts[1], bytes)
    times = process.host.put(bytes(8 * max(1, counts[2])))
    arguments = process.word(context), inputs, outputs, times
    for number in range(warm + 1):
        progress(f"run {number + 1} of {warm + 1}")
        process.checked(process.call(process.word(table + _PROFILE), arguments, limit), "run")
    ns = struct.unpack(f"<{counts[2]}d", process.program.emulator.code(times, 8 * counts[2]))
    steps = tuple(
        SimulatedStep(*process.step(process.word(table + _STEPS) + _STEP_SIZE * n), time * process.figures.ghz)
        for n, time in enumerate(ns)
    )
    return ModelSimulation(
        str(path), core.name, board.name, steps, process.last, process.figures, process.contents(table, outputs)
    )


class _Process:
    """A model library in the emulator, its constructors run; memory stays from call to call."""

    last: CallCounts

    def __init__(self, path: Path, image: CodeImage, core: Core, timing: Timing, figures: SimulatedCore) -> None:
        self.path, self.figures = path, figures
        self.program = SimulatedProgram(image, timing, figures)
        # The emulated thread is on CPU 0: a library with versions takes that core's.
        environment = (f"MAVCG_CPU_MAP=0={core.name}",)
        self.host = EngineHost(self.program.emulator, self.program.now, figures.ghz, environment)
        self.program.host_functions = self.host.functions()
        self.program.system_call = system_call
        values = dict(zip(_PROCESS_DATA, (self.host.environment, self.host.environment, *RSEQ), strict=True))
        for address, name in image.external_data.items():
            if name in values:
                self.program.emulator.uc.mem_write(address, values[name].to_bytes(8, "little"))
        self.program.emulator.keep_memory()
        for address in constructors(path):
            self.call(address, (), INSTRUCTION_LIMIT)

    def call(self, address: int, x: tuple[int, ...], limit: int) -> int:
        self.last = self.program.call(address, CallState(x, (), b"", ()), limit)
        return self.program.emulator.general(0)

    def word(self, address: int) -> int:
        return int.from_bytes(self.program.emulator.code(address, 8), "little")

    def word32(self, address: int) -> int:
        return int.from_bytes(self.program.emulator.code(address, 4), "little")

    def text(self, address: int) -> str:
        found = b""
        while not found.endswith(b"\0") and len(found) < 4096:
            found += self.program.emulator.code(address + len(found), 1)
        return found.rstrip(b"\0").decode(errors="replace")

    def step(self, address: int) -> tuple[str, str, str]:
        name, op, kernel = (self.text(self.word(address + 8 * n)) for n in range(3))
        return name, op, kernel

    def tensors(self, place: int, count: int, content: Callable[[int], bytes]) -> int:
        """Return the address of an array of pointers to new memory for each tensor."""
        first = self.word(place)
        sizes = [self.word(first + _TENSOR_SIZE * n + _TENSOR_BYTES) for n in range(count)]
        pointers = [self.host.put(content(size)) for size in sizes]
        return self.host.put(struct.pack(f"<{count}Q", *pointers))

    def contents(self, table: int, pointers: int) -> tuple[bytes, ...]:
        """Return the output tensors' bytes."""
        first = self.word(table + _OUTPUTS)
        return tuple(
            self.program.emulator.code(self.word(pointers + 8 * n), self.word(first + _TENSOR_SIZE * n + _TENSOR_BYTES))
            for n in range(self.word32(table + _COUNTS + 4))
        )

    def checked(self, status: int, what: str) -> None:
        status = status & 0xFFFF_FFFF
        if status:
            raise MavcgError(
                f"{self.path}: {what} ends with status {status - (status >> 31 << 32)}; run the library itself"
            )


def model_json(found: ModelSimulation) -> dict[str, Any]:
    """Return a simulated run as `mavcg simulate --per-layer --json` prints it."""
    total, counts = found.counts.cycles, found.counts
    return {
        "file": found.file,
        "core": found.core,
        "board": found.board,
        "threads": 1,
        "cycles_are": "simulated, not measured",
        "sampling": "none: every instruction of the run",
        "cycles": total,
        "instructions": counts.instructions,
        "ipc": round(counts.instructions / total, 4) if total else 0.0,
        "milliseconds": round(total / found.figures.ghz / 1e6, 6),
        "stalls": dict(counts.stalls),
        "caches": {
            level: {"hits": hits, "misses": misses}
            for level, (hits, misses) in list(counts.caches.items())[: len(found.figures.levels)]
        },
        "layers": [
            {"name": s.name, "op": s.op, "kernel": s.kernel, "cycles": round(s.cycles),
             "milliseconds": round(s.cycles / found.figures.ghz / 1e6, 6)}
            for s in found.steps
        ],
        "assumed": list(found.figures.assumed),
        "unmodelled": dict(counts.unmodelled),
    }  # fmt: skip
