"""Simulate a call of a function on a core: from a file or a code image to cycles, stalls, caches and confidence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mavcg.assembly.argument_states import Arguments, parse_call
from mavcg.assembly.asm_input import version_symbol
from mavcg.assembly.asm_source import read_asm_source
from mavcg.assembly.code_image import CodeImage, assemble_image
from mavcg.errors import MavcgError
from mavcg.hardware.board import Board
from mavcg.hardware.core import Core
from mavcg.hardware.timing import Timing
from mavcg.simulate.call_arguments import CallState, call_state
from mavcg.simulate.core_facts import SimulatedCore, simulated_core
from mavcg.simulate.program_image import read_program
from mavcg.simulate.run import INSTRUCTION_LIMIT, CallCounts, SimulatedProgram, cache_report
from mavcg.sources.compile_commands import LANGUAGES

BUFFER_LIMIT = 1 << 29  # bytes of a call's buffers
WARM_CALLS = 1


@dataclass(frozen=True)
class Simulation:
    """A simulated call.

    function: symbol that ran. counts: counts of the last call. figures: facts of the core, whose `assumed` sentences
    and unmodelled instructions show what the result depends on. warm: number of calls before it. model_error: the
    model's error on silicon.
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
        """Return the grade, the pipeline model's error on silicon, the assumptions, and instructions without facts."""
        unmodelled = sum(1 for _ in self.counts.unmodelled)
        return {
            "pipeline_error": self.model_error,
            "assumed": list(self.figures.assumed),
            "unmodelled": dict(self.counts.unmodelled),
            "grade": "assumed" if unmodelled or self.model_error is None else "held against silicon",
        }


def parse_arguments_of_call(text: str) -> Arguments:
    """Return the arguments of one call, from the value of --args. Raises: MavcgError."""
    return parse_call(text, text, BUFFER_LIMIT, "a simulated call", with_ranges=False)


def read_code(path: Path) -> CodeImage:
    """Return the code of an AArch64 assembly file, object, library or program. Raises: MavcgError for other files."""
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
        raise MavcgError(f"{path}: is source code and no machine code; compile it, such as by `{compiler}`")
    return assemble_image(read_asm_source(path).text, str(path))


def simulate(
    code: Path | CodeImage,
    function: str,
    arguments: str | Arguments | CallState,
    core: Core,
    timing: Timing,
    board: Board | None = None,
    warm: int = WARM_CALLS,
    sharing: int = 1,
    limit: int = INSTRUCTION_LIMIT,
    facts: SimulatedCore | None = None,
    contents: Sequence[bytes] = (),
    progress: Callable[[str], None] = lambda what: None,
) -> Simulation:
    """Simulate a call of a function on a core and return its cycles and their causes.

    arguments: words such as "buf:4096 i:64". board: gives caches, clock and memory. warm: calls before the one that is
    counted, which leave caches and predictor warm; each begins with the same memory. sharing: cores that use the caches
    and the memory alike. limit: instructions of a call. facts: of the core in place of those of its file and board.
    contents: of the buffers of `arguments`, in their order.
    Raises: MavcgError for a function that is not there, and for a call that does not return.
    """
    image = read_code(code) if isinstance(code, Path) else code
    name = str(code) if isinstance(code, Path) else "code"
    symbol = version_symbol(function, core, image.functions, name)
    figures = facts or simulated_core(core, board, sharing)
    state = arguments
    if isinstance(state, str):
        state = parse_arguments_of_call(state)
    if not isinstance(state, CallState):
        state = call_state(state, contents=contents)
    program = SimulatedProgram(image, timing, figures)
    for number in range(warm):
        progress(f"{symbol}: call {number + 1} of {warm + 1}, to warm caches and predictor")
        program.call(image.symbols[symbol], state, limit)
    progress(f"{symbol}: counting")
    counts = program.call(image.symbols[symbol], state, limit)
    return Simulation(name, symbol, core.name, timing.order, counts, figures, warm, core.model_error)


def simulation_json(simulation: Simulation) -> dict[str, Any]:
    """Return a simulation as `mavcg simulate --json` prints it."""
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
