"""Load a model library into the emulator as a process: run constructors, call functions, read and write tensors."""

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mavcg.assembly.code_image import CodeImage
from mavcg.cost.core_facts import SimulatedCore
from mavcg.errors import MavcgError
from mavcg.hardware.core import Core
from mavcg.hardware.timing import Timing
from mavcg.lab.simulate.call_arguments import CallState, moderate_lanes
from mavcg.lab.simulate.emulator import EMULATED_EXTENSIONS
from mavcg.lab.simulate.engine_host import EngineHost, system_call
from mavcg.lab.simulate.program_image import constructors
from mavcg.lab.simulate.sampling import SampledRun, SamplePlan
from mavcg.lab.simulate.simulated_program import INSTRUCTION_LIMIT, CallCounts, SimulatedProgram
from mavcg.runtime.library_tables import DTYPE_OF_CODE

WARM_TAIL = 20_000_000  # last instructions of the warming run whose accesses go through the caches
# Data of libc that the selector reads if present: the environment, and the location of the thread's CPU number (rseq).
PROCESS_DATA = ("environ", "__environ", "__rseq_offset", "__rseq_size")
RSEQ = (0x400, 32)  # offset from the thread pointer and size; that memory is zero, which means CPU 0
# Offsets in mavcg_model_table, mavcg_step and mavcg_tensor (runtime/csrc/engine_api.h), of 64-bit targets.
_COUNTS, _INPUTS, _OUTPUTS, _STEPS, _CREATE, _PROFILE = 4, 24, 32, 40, 72, 104
_STEP_SIZE = 48
_OPTIONS_SIZE = 24
_TENSOR = struct.Struct("<QiiQQ")  # name, type, rank, dims, bytes

Array = NDArray[Any]
InputsOf = Callable[[Sequence[str]], Sequence[Array]]  # from the names of the inputs to their arrays


@dataclass(frozen=True)
class ModelTensor:
    """An input or output tensor as the library describes it. bytes: size in memory."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    bytes: int


@dataclass(frozen=True)
class OpenModel:
    """A model with a context in the emulated process.

    table: address of its mavcg_model_table. steps: number of its steps. profile: address of the function that runs it
    and times each step. arguments: context, inputs, outputs, times (an f64 for each step, in ns).
    """

    table: int
    steps: int
    outputs: tuple[ModelTensor, ...]
    profile: int
    arguments: tuple[int, int, int, int]


class ModelProcess:
    """A model library in the emulator after its constructors ran; calls keep the memory of earlier calls.

    last: counts of the last call.
    """

    last: CallCounts

    def __init__(self, path: Path, image: CodeImage, core: Core, timing: Timing, figures: SimulatedCore) -> None:
        self.path, self.figures = path, figures
        self.program = SimulatedProgram(image, timing, figures)
        # The emulated thread runs on CPU 0, so that a library with several versions selects that of this core.
        environment = (f"MAVCG_CPU_MAP=0={core.name}",)
        self._sampled: SampledRun | None = None
        extensions = EMULATED_EXTENSIONS & set(core.extensions)
        self.host = EngineHost(self.program.emulator, self.now, figures.ghz, environment, extensions)
        self.program.host_functions = self.host.functions()
        self.program.system_call = system_call
        values = dict(zip(PROCESS_DATA, (self.host.environment, self.host.environment, *RSEQ), strict=True))
        for address, name in image.external_data.items():
            if name in values:
                self.program.emulator.uc.mem_write(address, values[name].to_bytes(8, "little"))
        self.program.emulator.keep_memory()
        for address in constructors(path):
            self.call(address, (), INSTRUCTION_LIMIT)

    def call(self, address: int, x: tuple[int, ...], limit: int) -> int:
        self.last = self.program.call(address, CallState(x, (), b"", ()), limit)
        return self.program.emulator.general(0)

    def now(self) -> int:
        """Return the time that clock_gettime gives the engine, in cycles; in a sampled run this ends a part."""
        return self.program.now() if self._sampled is None else round(self._sampled.end_part())

    def open_model(self, api: int, limit: int, inputs_of: InputsOf | None) -> OpenModel:
        """Create a context of the model, with its inputs in memory.

        api: address of mavcg_model_api. limit: maximum instructions of a call. inputs_of: None for random inputs of a
        fixed seed. Raises: MavcgError if a call fails.
        """
        table = self.call(api, (), limit)
        counts = [self.word32(table + _COUNTS + 4 * n) for n in range(3)]
        context = self.host.put(bytes(8))
        options = self.host.put(struct.pack("<iI", 1, 0).ljust(_OPTIONS_SIZE, b"\0"))
        self.check_status(self.call(self.word(table + _CREATE), (options, context), limit), "create")
        tensors = self.tensors(table + _INPUTS, counts[0])
        results = self.tensors(table + _OUTPUTS, counts[1])
        if inputs_of is None:
            contents = _moderate(tensors)
        else:
            contents = self.arrays(tensors, inputs_of([tensor.name for tensor in tensors]))
        inputs = self.put_tensors(contents)
        outputs = self.put_tensors([bytes(tensor.bytes) for tensor in results])
        times = self.host.put(bytes(8 * max(1, counts[2])))
        arguments = self.word(context), inputs, outputs, times
        return OpenModel(table, counts[2], tuple(results), self.word(table + _PROFILE), arguments)

    def stop_timing(self) -> None:
        """Switch timing off until a sampled run begins; all accesses still go through the caches."""
        self._sampled = SampledRun(self.program.simulation, SamplePlan(), [0], WARM_TAIL)

    def run(self, model: OpenModel, limit: int) -> None:
        """Run a model, and time each step. limit: maximum instructions. Raises: MavcgError if the run fails."""
        self.check_status(self.call(model.profile, model.arguments, limit), "run")

    def run_sampled(
        self, model: OpenModel, plan: SamplePlan, warm: int, limit: int, progress: Callable[[str], None]
    ) -> SampledRun:
        """Run a model once to count instructions, `warm` times to warm the caches, and once sampled.

        limit: maximum instructions of a call.
        Raises: MavcgError if the clock is not read once before and once after each phase of the steps.
        """
        lengths: list[int] | None = None
        for number in range(warm + 2):
            action = "counting instructions" if lengths is None else "warming caches" if number <= warm else "timing"
            progress(f"run {number + 1} of {warm + 2}: {action}")
            tail = WARM_TAIL if 0 < number <= warm else 0
            self._sampled = run = SampledRun(self.program.simulation, plan, lengths, tail)
            self.run(model, limit)
            run.end_part()
            lengths = [part.instructions for part in run.parts]
            # The engine reads the clock before and after each phase; a step by bands of rows has several phases.
            if len(lengths) % 2 == 0 or len(lengths) < 2 * model.steps + 1:
                raise MavcgError(
                    f"{self.path}: looks at the clock {len(lengths) - 1} times in {model.steps} steps; simulate it "
                    "--whole"
                )
        return run

    def word(self, address: int) -> int:
        return int.from_bytes(self.program.emulator.code(address, 8), "little")

    def word32(self, address: int) -> int:
        return int.from_bytes(self.program.emulator.code(address, 4), "little")

    def text(self, address: int) -> str:
        content = b""
        while not content.endswith(b"\0") and len(content) < 4096:
            content += self.program.emulator.code(address + len(content), 1)
        return content.rstrip(b"\0").decode(errors="replace")

    def step(self, model: OpenModel, number: int) -> tuple[str, str, str]:
        """Return name, operator and kernel of a step of a model."""
        address = self.word(model.table + _STEPS) + _STEP_SIZE * number
        name, op, kernel = (self.text(self.word(address + 8 * n)) for n in range(3))
        return name, op, kernel

    def tensors(self, pointer: int, count: int) -> list[ModelTensor]:
        """Return the descriptions of `count` inputs or outputs.

        pointer: address, in the model's table, of the pointer to the descriptions.
        """
        first, tensors = self.word(pointer), []
        for number in range(count):
            data = self.program.emulator.code(first + _TENSOR.size * number, _TENSOR.size)
            name, code, rank, dims, size = _TENSOR.unpack(data)
            shape = struct.unpack(f"<{rank}q", self.program.emulator.code(dims, 8 * rank)) if rank else ()
            tensors.append(ModelTensor(self.text(name), DTYPE_OF_CODE[code], shape, size))
        return tensors

    def arrays(self, tensors: Sequence[ModelTensor], arrays: Sequence[Array]) -> list[bytes]:
        """Return the bytes of one array for each input tensor. Raises: MavcgError for a wrong shape or element type."""
        for tensor, array in zip(tensors, arrays, strict=True):
            if array.shape != tensor.shape or array.dtype != tensor.dtype:
                raise MavcgError(
                    f"{self.path}: input {tensor.name}: {array.dtype}{list(array.shape)}, the model takes "
                    f"{tensor.dtype}{list(tensor.shape)}; give such an array"
                )
        return [array.tobytes() for array in arrays]

    def put_tensors(self, contents: Sequence[bytes]) -> int:
        """Copy each tensor's bytes to new memory, and return the address of an array of pointers to them."""
        pointers = [self.host.put(content) for content in contents]
        return self.host.put(struct.pack(f"<{len(pointers)}Q", *pointers))

    def read_tensors(self, tensors: Sequence[ModelTensor], pointers: int) -> tuple[bytes, ...]:
        """Return the bytes of each tensor. pointers: address of their pointers, as put_tensors returns it."""
        return tuple(
            self.program.emulator.code(self.word(pointers + 8 * n), tensor.bytes) for n, tensor in enumerate(tensors)
        )

    def check_status(self, status: int, function: str) -> None:
        """Raise MavcgError if an exit status is not 0. function: name of the function, for the message."""
        status = status & 0xFFFF_FFFF
        if status:
            raise MavcgError(
                f"{self.path}: {function} ends with status {status - (status >> 31 << 32)}; run the library itself"
            )


def _moderate(tensors: Sequence[ModelTensor]) -> list[bytes]:
    """Return bytes for each tensor from a fixed seed; f32 lanes have magnitudes from 2^-7 to 4."""
    pick = random.Random("inputs")
    return [moderate_lanes(pick, tensor.bytes) for tensor in tensors]
