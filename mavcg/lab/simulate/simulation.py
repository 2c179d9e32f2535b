"""Simulate a call of a function on a core: from a file or a code image to cycles, stalls, caches and confidence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mavcg.assembly.argument_states import Arguments, parse_call
from mavcg.assembly.asm_input import version_symbol
from mavcg.assembly.asm_source import read_asm_source
from mavcg.assembly.code_image import CodeImage, assemble_image
from mavcg.cost.core_facts import SimulatedCore, simulated_core
from mavcg.errors import MavcgError
from mavcg.hardware.board import Board
from mavcg.hardware.core import Core
from mavcg.hardware.timing import Timing
from mavcg.lab.simulate.call_arguments import call_state
from mavcg.lab.simulate.program_image import read_program
from mavcg.lab.simulate.simulated_program import INSTRUCTION_LIMIT, CallCounts, SimulatedProgram, cache_report
from mavcg.program.sources.compile_commands import LANGUAGES

BUFFER_LIMIT = 1 << 29  # maximum bytes of all buffers of a call


@dataclass(frozen=True)
class CallOptions:
    """Options of a simulation of a call.

    warm: calls before the counted one, which warm caches and predictor. sharing: number of cores that use the shared
    caches and the memory equally. limit: maximum instructions of a call. contents: bytes of the buffers among the
    arguments, in their order.
    """

    warm: int = 1
    sharing: int = 1
    limit: int = INSTRUCTION_LIMIT
    contents: Sequence[bytes] = ()


@dataclass(frozen=True)
class Simulation:
    """A simulated call.

    file, function: the code and the symbol that was called. order: "in" or "out", as Timing.order. counts: counts of
    the last call. figures: facts of the core, with the assumptions made. warm: number of calls before the counted one.
    model_error: relative error of the pipeline model against silicon, 0.09 for 9 %; None if unknown.
    """

    file: str
    function: str
    core: str
    order: str
    counts: CallCounts
    figures: SimulatedCore
    warm: int
    model_error: float | None = None

    @property
    def confidence(self) -> dict[str, Any]:
        """Return how far the result can be trusted: model error, assumptions, instructions without facts, a grade."""
        unmodelled = sum(1 for _ in self.counts.unmodelled)
        return {
            "pipeline_error": self.model_error,
            "assumed": list(self.figures.assumed),
            "unmodelled": dict(self.counts.unmodelled),
            "grade": "assumed" if unmodelled or self.model_error is None else "held against silicon",
        }


def parse_arguments_of_call(text: str) -> Arguments:
    """Parse the value of --args as the arguments of one call. Raises: MavcgError if it is malformed."""
    return parse_call(text, text, BUFFER_LIMIT, "a simulated call", with_ranges=False)


def read_code(path: Path) -> CodeImage:
    """Return the code image of an AArch64 assembly file, object, library or program.

    Raises: MavcgError for a file that cannot be read, and for source code.
    """
    try:
        with path.open("rb") as file:
            head = file.read(4)
    except OSError as error:
        raise MavcgError(
            f"{path}: cannot be read ({error.strerror}); name assembly, an object, library or program"
        ) from error
    if head == b"\x7fELF":
        return read_program(path)
    if path.suffix in LANGUAGES:
        compiler = f"python -m ziglang cc -target aarch64-linux-gnu -O2 -c {path.name} -o {path.stem}.o"
        raise MavcgError(f"{path}: is source code, not machine code; compile it, such as by `{compiler}`")
    return assemble_image(read_asm_source(path).text, str(path))


def simulate(
    code: Path | CodeImage,
    function: str,
    arguments: str,
    core: Core,
    timing: Timing,
    board: Board | None = None,
    options: CallOptions = CallOptions(),
    progress: Callable[[str], None] = lambda what: None,
) -> Simulation:
    """Simulate a call of a function on a core, and return its cycles, stalls and cache accesses.

    arguments: text such as "buf:4096 i:64"; every call begins with the same memory. board: gives caches, clock and
    memory. progress: called with a message before each call.
    Raises: MavcgError for an unknown function, and for a call that does not return.
    """
    image = read_code(code) if isinstance(code, Path) else code
    name = str(code) if isinstance(code, Path) else "code"
    symbol = version_symbol(function, core, image.functions, name)
    figures = simulated_core(core, board, options.sharing)
    state = call_state(parse_arguments_of_call(arguments), contents=options.contents)
    program = SimulatedProgram(image, timing, figures)
    for number in range(options.warm):
        progress(f"{symbol}: call {number + 1} of {options.warm + 1}, to warm caches and predictor")
        program.call(image.symbols[symbol], state, options.limit)
    progress(f"{symbol}: counting")
    counts = program.call(image.symbols[symbol], state, options.limit)
    return Simulation(name, symbol, core.name, timing.order, counts, figures, options.warm, core.model_error)


def simulation_json(simulation: Simulation) -> dict[str, Any]:
    """Return a simulation as the JSON document of `mavcg simulate --json`."""
    counts = simulation.counts
    return {
        "file": simulation.file,
        "function": simulation.function,
        "core": simulation.core,
        "order": simulation.order,
        "cycles_are": "simulated, not measured",
        "cycles": counts.cycles,
        "instructions": counts.instructions,
        "ipc": round(counts.instructions / counts.cycles, 4) if counts.cycles else 0.0,
        "stalls": dict(counts.stalls),
        "caches": cache_report(counts, simulation.figures),
        "memory": {
            "lines_read": counts.memory_lines,
            "lines_written": counts.written_lines,
            "lines_prefetched": counts.prefetched_lines,
        },
        "branches": {"executed": counts.branches, "mispredicted": counts.mispredicts},
        "unaligned_accesses": counts.unaligned,
        "callees": dict(counts.callees),
        "warm_calls": simulation.warm,
        "milliseconds": round(counts.cycles / simulation.figures.ghz / 1e6, 6),
        "ghz": simulation.figures.ghz,
        "confidence": simulation.confidence,
    }
