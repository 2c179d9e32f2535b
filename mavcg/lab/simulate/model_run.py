"""Simulate a run of a model library on one core with one thread; the engine's own profile gives each step's cycles.

By default each step is sampled (lab/simulate/sampling.py), after an untimed run that counts the instructions of each
step. On request every instruction is timed.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mavcg.cost.core_facts import SimulatedCore, simulated_core
from mavcg.errors import MavcgError
from mavcg.hardware.board import Board
from mavcg.hardware.core import Core
from mavcg.hardware.timing import Timing
from mavcg.lab.simulate.model_process import PROCESS_DATA, InputsOf, ModelProcess, OpenModel
from mavcg.lab.simulate.program_image import read_program
from mavcg.lab.simulate.sampling import RunCounts, SampledRun, SamplePlan, sum_of_counts
from mavcg.lab.simulate.simulated_program import CallCounts, cache_report

MODEL_INSTRUCTION_LIMIT = 200_000_000_000


@dataclass(frozen=True)
class ModelRunOptions:
    """Options of a simulation of a model library.

    warm: runs before the one that is counted. limit: maximum instructions of a call. plan: sampling plan of each step;
    None to time every instruction. inputs_of: function from the input names to their arrays; None for seeded random
    inputs.
    """

    warm: int = 1
    limit: int = MODEL_INSTRUCTION_LIMIT
    plan: SamplePlan | None = None
    inputs_of: InputsOf | None = None


@dataclass(frozen=True)
class SimulatedStep:
    """A step of a model with its simulated cycles.

    sample: the estimate of the step, if the run was sampled and each step had one phase. error: standard error of the
    cycles by sampling; None if steps ran in several phases, for which only the run's total error is known.
    """

    name: str
    op: str
    kernel: str
    cycles: float
    sample: RunCounts | None = None
    error: float | None = 0.0


@dataclass(frozen=True)
class ModelSimulation:
    """A simulated run of a model.

    counts: counts of the whole run, in its steps and between them. outputs: bytes of each output tensor. plan: the
    sampling plan; None if every instruction was timed. error: standard error of the run's cycles by sampling. timed:
    number of timed instructions.
    """

    file: str
    core: str
    board: str
    steps: tuple[SimulatedStep, ...]
    counts: CallCounts
    figures: SimulatedCore
    outputs: tuple[bytes, ...] = ()
    plan: SamplePlan | None = None
    error: float = 0.0
    timed: int = 0


def simulate_model(
    path: Path,
    core: Core,
    timing: Timing,
    board: Board,
    options: ModelRunOptions = ModelRunOptions(),
    progress: Callable[[str], None] = lambda what: None,
) -> ModelSimulation:
    """Simulate a run of a model library on one core of a board.

    Raises: MavcgError for a file that is not a model library, for arrays that do not fit its inputs, and for a run that
    fails.
    """
    limit, plan = options.limit, options.plan
    image = read_program(path, PROCESS_DATA)
    if "mavcg_model_api" not in image.symbols:
        raise MavcgError(
            f"{path}: is not a model library; give --function, or a library that `mavcg build` made of a model"
        )
    process = ModelProcess(path, image, core, timing, simulated_core(core, board))
    if plan is not None:
        process.stop_timing()
    progress("creating a context")
    model = process.open_model(image.symbols["mavcg_model_api"], limit, options.inputs_of)
    sampled, total = None, RunCounts()
    if plan is None:
        for number in range(options.warm + 1):
            progress(f"run {number + 1} of {options.warm + 1}")
            process.run(model, limit)
        counts_of_run = process.last
    else:
        sampled = process.run_sampled(model, plan, options.warm, limit, progress)
        total = sum_of_counts(sampled.parts)
        counts_of_run = _call_counts(total, process.last)
    return ModelSimulation(
        str(path),
        core.name,
        board.name,
        _simulated_steps(process, model, sampled),
        counts_of_run,
        process.figures,
        process.read_tensors(model.outputs, model.arguments[2]),
        plan,
        total.error,
        total.measured if sampled else counts_of_run.instructions,
    )


def _simulated_steps(process: ModelProcess, model: OpenModel, sampled: SampledRun | None) -> tuple[SimulatedStep, ...]:
    """Return the steps of the last run with their cycles. sampled: None if every instruction was timed."""
    ns = struct.unpack(f"<{model.steps}d", process.program.emulator.code(model.arguments[3], 8 * model.steps))
    # The engine reads the clock before and after each phase. If each step has a single phase, phases map to steps. With
    # bands of rows, the phases of several steps alternate, and only the engine's profile gives the time of each step.
    samples: list[RunCounts | None] = [None] * model.steps
    if sampled is not None and len(sampled.parts) == 2 * model.steps + 1:
        samples = [sampled.parts[2 * n + 1] for n in range(model.steps)]
    return tuple(
        SimulatedStep(
            *process.step(model, n),
            time * process.figures.ghz if sample is None else sample.cycles,
            sample,
            0.0 if sampled is None else sample.error if sample is not None else None,
        )
        for n, (time, sample) in enumerate(zip(ns, samples, strict=True))
    )


def _call_counts(total: RunCounts, last: CallCounts) -> CallCounts:
    """Return the counts of a whole sampled run as those of a call. last: exact counts of the last call."""
    return replace(
        last,
        cycles=round(total.cycles),
        instructions=total.instructions,
        stalls={cause: round(cycles) for cause, cycles in total.stalls.items()},
        caches={name: (round(hits), round(misses)) for name, (hits, misses) in total.caches.items()},
        branches=total.branches,
        mispredicts=total.mispredicts,
        memory_lines=round(total.memory_lines),
        written_lines=round(total.written_lines),
    )


def model_json(simulation: ModelSimulation) -> dict[str, Any]:
    """Return a simulated run as `mavcg simulate --per-layer --json` prints it."""
    total, counts = simulation.counts.cycles, simulation.counts
    return {
        "file": simulation.file,
        "core": simulation.core,
        "board": simulation.board,
        "threads": 1,
        "cycles_are": "simulated, not measured",
        "sampling": _sampling_json(simulation),
        "cycles": total,
        "instructions": counts.instructions,
        "ipc": round(counts.instructions / total, 4) if total else 0.0,
        "milliseconds": round(total / simulation.figures.ghz / 1e6, 6),
        "stalls": dict(counts.stalls),
        "caches": cache_report(counts, simulation.figures),
        "layers": [
            {
                "name": s.name,
                "op": s.op,
                "kernel": s.kernel,
                "cycles": round(s.cycles),
                "milliseconds": round(s.cycles / simulation.figures.ghz / 1e6, 6),
                **_sample_json(s),
            }
            for s in simulation.steps
        ],
        "assumed": list(simulation.figures.assumed),
        "unmodelled": dict(counts.unmodelled),
    }


def _sampling_json(simulation: ModelSimulation) -> dict[str, Any]:
    if simulation.plan is None:
        return {"whole": True, "standard_error_cycles": 0, "timed_instructions": simulation.timed}
    plan = simulation.plan
    return {
        "whole": False,
        "units_per_layer": plan.units,
        "unit_instructions": plan.unit,
        "warm_instructions": plan.warm,
        "functional_instructions": plan.functional,
        "seed": plan.seed,
        "timed_instructions": simulation.timed,
        "standard_error_cycles": round(simulation.error),
    }


def _sample_json(step: SimulatedStep) -> dict[str, Any]:
    sample = step.sample
    if sample is None:
        return {"standard_error_cycles": None if step.error is None else round(step.error)}
    return {
        "standard_error_cycles": round(sample.error),
        "instructions": sample.instructions,
        "timed_instructions": sample.measured,
        "units": sample.units,
    }
