"""How fast the core types of a build are beside each other in each step: how much of it a thread claims at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mavcg.accelerator import Accelerator
from mavcg.kernel import KernelSpec, Machine
from mavcg.kernels.emit import kernel_name
from mavcg.kernels.primitives.winograd_spec import Winograd
from mavcg.model_program import Program
from mavcg.planner.engine_cost import cost, work_of
from mavcg.tile_plan import TilePlan

MOST_WEIGHT = 4096  # of the fastest core; the engine takes up to 65535


def weights_of(ns_per_row: Sequence[float]) -> list[int]:
    """The engine's weights of cores that take so long for a row: in proportion to their speeds, 1 or more."""
    fastest = min(ns_per_row)
    return [max(1, round(MOST_WEIGHT * fastest / ns)) if ns else MOST_WEIGHT for ns in ns_per_row]


def with_weights(
    program: Program,
    specs: Sequence[KernelSpec],
    machines: Mapping[str, Machine],
    cores: Mapping[str, Accelerator],
    plan: TilePlan,
) -> Program:
    """The program, each step with the modelled speed of each version's core in it (ProgramStep.weights).

    machines, cores: by the version's label, as plan_tiles has them. Where the planner has no model of a kernel, its
    cores count by their multiply-adds if it lives by these (Winograd's), else by their clocks. With one core type all
    threads are alike, and nothing is said.
    """
    if len(machines) < 2:
        return program
    found = {kernel_name(spec): _weights(spec, machines, cores, plan) for spec in specs}
    return replace(program, steps=tuple(replace(step, weights=found[step.kernel]) for step in program.steps))


def _weights(
    spec: KernelSpec, machines: Mapping[str, Machine], cores: Mapping[str, Accelerator], plan: TilePlan
) -> tuple[tuple[str, int], ...]:
    work = work_of(spec) if spec.rows else None
    seconds = []
    for label, machine in machines.items():
        core, macro = cores[label], plan.of(kernel_name(spec), label)
        if work is not None and macro is not None:
            cycles = cost(work, machine, core, macro).cycles
        else:
            cycles = 1.0 / core.pes if isinstance(spec, Winograd) else 1.0
        seconds.append(cycles / core.frequency_ghz)
    return tuple(zip(machines, weights_of(seconds), strict=True))
