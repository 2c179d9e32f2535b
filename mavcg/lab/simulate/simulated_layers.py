"""Simulated times of steps of a program, one kernel each with its own macro-tile, kept on disk.

A step is called as the engine calls it, at the program's addresses, with the caches as the steps before left them
(lab/simulate/simulated_steps.py). A time is kept under a digest of all that it depends on: the kernel's code, the
addresses, the facts of the core and the simulator itself. So a second prediction of the same network, or of one that
has steps in common, simulates what is new only.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, replace
from functools import partial

from mavcg.assembly.code_image import CodeImage
from mavcg.choose.algorithms.costs.cost_version import simulator_version
from mavcg.choose.lowering.kernel_code import version_symbol
from mavcg.choose.predict.unsure import BuiltKernels
from mavcg.choose.predict.work import INPUT, OUTPUT, WEIGHT, StepWork, Touch, base_of
from mavcg.cost.core_facts import SimulatedCore, simulated_core
from mavcg.errors import MavcgError, ProfileError
from mavcg.files.store import open_store
from mavcg.files.worker_processes import Task, run_tasks
from mavcg.hardware.board import Board
from mavcg.hardware.core import Core
from mavcg.hardware.core_model import CoreModel
from mavcg.kernels.primitives.sparse.family import even_packed
from mavcg.kernels.primitives.sparse.product import SparseProduct
from mavcg.lab.simulate.program_image import read_program
from mavcg.lab.simulate.row_windows import TouchedMemory
from mavcg.lab.simulate.simulated_steps import StepCalls, simulate_step
from mavcg.profiles.timing import load_timing
from mavcg.specs.kernel import KernelSpec
from mavcg.specs.model_program import WORDS, OperandAddress

# Addresses of the buffers of a program; inputs and outputs follow, one each.
_ARENA, _CONSTANTS, _FAULT, _OUTSIDE = 0x60_0000_0000, 0x64_0000_0000, 0x68_0000_0000, 0x6A_0000_0000
_OUTSIDE_STEP = 1 << 32
_LAST_LEVELS = 2  # last levels of bytes before a step that the caches are shown
FOLDER = "simulated-steps"


def simulated_steps(
    works: Sequence[StepWork],
    numbers: Sequence[int],
    kernels: BuiltKernels,
    model: CoreModel,
    board: Board,
    workers: int = 1,
    progress: Callable[[str], None] = lambda message: None,
) -> dict[int, float | str]:
    """Return the simulated ms of each of these steps on one core, by its number; or why it cannot be simulated.

    works: of the whole program, which runs again and again. workers: processes. Raises: MavcgError where the simulator
    is not installed, and for a library that cannot be read.
    """
    core, label = model.core, model.label
    assert core is not None  # a core without a file cannot be simulated
    try:
        load_timing(core)
    except ProfileError as error:
        return dict.fromkeys(numbers, str(error))
    facts, image = simulated_core(core, board, cluster=model.cluster), read_program(kernels.library)
    ghz, last = facts.ghz, max(level.size for level in facts.levels)
    calls: dict[int, StepCalls] = {}
    ms_of: dict[int, float | str] = {}
    for number in numbers:
        if works[number].operands:
            calls[number] = step_calls(works, number, kernels.specs[works[number].kernel], label, last)
        else:
            ms_of[number] = "the note of the library does not have its operands: build it again"
    store, keys = open_store(FOLDER), _keys(works, calls, image, core, facts)
    missing: dict[str, int] = {}
    for number, key in keys.items():
        cycles = store.read(key, float)
        if cycles is None:
            missing.setdefault(key, number)
        else:
            ms_of[number] = cycles / ghz / 1e6
    action = f"simulating steps on {core.name}"
    tasks = [Task(action, partial(_cycles, image, core, facts, calls[number])) for number in missing.values()]
    new = dict(zip(missing, run_tasks(tasks, workers, progress), strict=True))
    for key, simulated in new.items():
        if not isinstance(simulated, str):
            store.write(key, simulated)
    for number, key in keys.items():
        if key in new:
            simulated = new[key]
            ms_of[number] = simulated if isinstance(simulated, str) else simulated / ghz / 1e6
    return ms_of


def _cycles(image: CodeImage, core: Core, facts: SimulatedCore, calls: StepCalls) -> float | str:
    try:
        return simulate_step(image, core, facts, calls).cycles
    except MavcgError as error:
        if "unicorn" in str(error):
            raise
        return str(error)


def step_calls(
    works: Sequence[StepWork], number: int, spec: KernelSpec, label: str, last_level_bytes: int
) -> StepCalls:
    """Return the calls of a step, with what the steps before it touched: up to some multiple of the last level's bytes.

    label: of the kernel's version. Constants lie one after the other in the order of their use, so that equal steps of
    a network are equal here.
    """
    work = works[number]
    places = _Addresses()
    own = tuple(places.touched_memory(touch, _by_rows(touch, work)) for touch in work.touches)
    before: list[TouchedMemory] = []
    left = _LAST_LEVELS * last_level_bytes
    for back in range(1, len(works) + 1):
        if left <= 0:
            break
        touches = works[(number - back) % len(works)].touches
        before = [*(places.touched_memory(touch, True) for touch in touches), *before]
        left -= sum(touch.span for touch in touches)
    contents = []
    if isinstance(spec, SparseProduct):
        for touch in [touch for touch in work.touches if touch.role == WEIGHT][:1]:
            packed = even_packed(touch.bytes, spec.blocks, spec.block_rows, spec.terms, spec.term_bytes)
            contents.append((places.address(touch.base, touch.begin), packed.tobytes()))
    return StepCalls(
        version_symbol(work.kernel, label),
        work.rows,
        work.call_rows,
        spec.scratch_bytes,
        tuple(places.of(operand) for operand in work.operands),
        own,
        tuple(before),
        tuple(contents),
    )


def _by_rows(touch: Touch, work: StepWork) -> bool:
    """Return whether a row of work needs only a part of an operand, in the order of rows."""
    return touch.role == OUTPUT or (touch.role == INPUT) != work.by_channels


class _Addresses:
    """Addresses of a program's buffers; constants get theirs in the order of their first use."""

    def __init__(self) -> None:
        self._constants: dict[int, int] = {}
        self._outside: dict[str, int] = {}
        self._next = _CONSTANTS

    def address(self, base: str, offset: int, size: int = 0) -> int:
        """Return an address. size: of a constant that may be new, in bytes."""
        if base == "arena":
            return _ARENA + offset
        if base in WORDS:
            return _FAULT
        if base == "constants":
            if offset not in self._constants:
                self._constants[offset] = self._next
                self._next += -(-size // 64) * 64
            return self._constants[offset]
        base_address = self._outside.setdefault(base, _OUTSIDE + _OUTSIDE_STEP * len(self._outside))
        return base_address + offset

    def touched_memory(self, touch: Touch, by_rows: bool) -> TouchedMemory:
        """Return an operand's memory, gaps inside it included."""
        return TouchedMemory(
            self.address(touch.base, touch.begin, touch.span), touch.span, touch.role == OUTPUT, by_rows
        )

    def of(self, operand: OperandAddress) -> int:
        """Return the address of an operand of the step whose touches are known."""
        return self.address(base_of(operand), operand.offset)


def _keys(
    works: Sequence[StepWork], calls: Mapping[int, StepCalls], image: CodeImage, core: Core, facts: SimulatedCore
) -> dict[int, str]:
    """Return the key under which each step's time is kept: everything that it depends on, as text."""
    common = json.dumps([simulator_version(), repr(replace(facts, assumed=())), repr(load_timing(core))])
    digests = {calls[number].symbol: _code_digest(image, calls[number].symbol) for number in calls}
    return {
        number: f"{common} {digests[step_calls.symbol]} {json.dumps(_plain(step_calls))}"
        for number, step_calls in calls.items()
    }


def _plain(calls: StepCalls) -> list[object]:
    """Return a step's calls as a document, without the kernel's name, which its code stands for."""
    contents = [(address, hashlib.sha256(data).hexdigest()) for address, data in calls.contents]
    memory = [[astuple(touched) for touched in group] for group in (calls.own, calls.before)]
    return [calls.rows, calls.call_rows, calls.scratch_bytes, calls.operands, memory, contents]


def _code_digest(image: CodeImage, symbol: str) -> str:
    """Return a digest of a function's machine code."""
    extent = image.extent(symbol)
    section = next(s for s in image.sections if s.address <= extent.start < s.address + len(s.data))
    at = extent.start - section.address
    return hashlib.sha256(section.data[at : at + len(extent)]).hexdigest()
