"""A model library in the emulator: its constructors run, its functions called, its tensors in memory."""

import struct
from collections.abc import Callable
from pathlib import Path

from mavcg.assembly.code_image import CodeImage
from mavcg.errors import MavcgError
from mavcg.hardware.core import Core
from mavcg.hardware.timing import Timing
from mavcg.simulate.call_arguments import CallState
from mavcg.simulate.core_facts import SimulatedCore
from mavcg.simulate.engine_host import EngineHost, system_call
from mavcg.simulate.program_image import constructors
from mavcg.simulate.run import INSTRUCTION_LIMIT, CallCounts, SimulatedProgram
from mavcg.simulate.sampling import SampledRun, SamplePlan

WARM_TAIL = 20_000_000  # last instructions of a run before the timed one that its caches see
# Data of libc that the selector reads where it is there: the environment; where the thread keeps its CPU's number.
PROCESS_DATA = ("environ", "__environ", "__rseq_offset", "__rseq_size")
RSEQ = (0x400, 32)  # from the thread pointer, in zeroes: CPU 0
# Offsets in mavcg_model_table and mavcg_tensor (runtime/csrc/engine_api.h), of 64-bit targets.
COUNTS, OUTPUTS, TENSOR_SIZE = 4, 32, 32
_TENSOR_BYTES = 24


class ModelProcess:
    """A model library in the emulator, its constructors run; memory stays from call to call."""

    last: CallCounts

    def __init__(self, path: Path, image: CodeImage, core: Core, timing: Timing, figures: SimulatedCore) -> None:
        self.path, self.figures = path, figures
        self.program = SimulatedProgram(image, timing, figures)
        # The emulated thread is on CPU 0: a library with versions takes that core's.
        environment = (f"MAVCG_CPU_MAP=0={core.name}",)
        self._sampled: SampledRun | None = None
        self.host = EngineHost(self.program.emulator, self.now, figures.ghz, environment)
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
        """Return the cycle that the engine's clock shows."""
        return self.program.now() if self._sampled is None else round(self._sampled.end_part())

    def stop_timing(self) -> None:
        """Time nothing until a sampled run begins; caches see all."""
        self._sampled = SampledRun(self.program.simulation, SamplePlan(), [0], WARM_TAIL)

    def run_sampled(
        self, profile: int, arguments: tuple[int, ...], limit: int, plan: SamplePlan, warm: int, steps: int,
        progress: Callable[[str], None],
    ) -> SampledRun:  # fmt: skip
        """Run once to count instructions, `warm` times to warm caches, and once sampled.

        Raises: MavcgError where the library reads the clock more often than between its steps.
        """
        lengths: list[int] | None = None
        for number in range(warm + 2):
            what = "counting instructions" if lengths is None else "warming caches" if number <= warm else "timing"
            progress(f"run {number + 1} of {warm + 2}: {what}")
            tail = WARM_TAIL if 0 < number <= warm else 0
            self._sampled = run = SampledRun(self.program.simulation, plan, lengths, tail)
            self.check_status(self.call(profile, arguments, limit), "run")
            run.end_part()
            lengths = [part.instructions for part in run.parts]
            if len(lengths) != 2 * steps + 1:
                raise MavcgError(
                    f"{self.path}: looks at the clock {len(lengths) - 1} times in {steps} steps; simulate it --whole"
                )
        return run

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
        sizes = [self.word(first + TENSOR_SIZE * n + _TENSOR_BYTES) for n in range(count)]
        pointers = [self.host.put(content(size)) for size in sizes]
        return self.host.put(struct.pack(f"<{count}Q", *pointers))

    def contents(self, table: int, pointers: int) -> tuple[bytes, ...]:
        """Return the output tensors' bytes."""
        first = self.word(table + OUTPUTS)
        return tuple(
            self.program.emulator.code(self.word(pointers + 8 * n), self.word(first + TENSOR_SIZE * n + _TENSOR_BYTES))
            for n in range(self.word32(table + COUNTS + 4))
        )

    def check_status(self, status: int, what: str) -> None:
        """Check an exit status. Raises: MavcgError for another than 0."""
        status = status & 0xFFFF_FFFF
        if status:
            raise MavcgError(
                f"{self.path}: {what} ends with status {status - (status >> 31 << 32)}; run the library itself"
            )
