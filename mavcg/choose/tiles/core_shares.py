"""Core shares of each step: the relative speeds of a build's core types, by which threads take chunks."""

from collections.abc import Mapping, Sequence

from mavcg.choose.tiles.cost import cost
from mavcg.choose.tiles.work import work_of
from mavcg.cost.guided_chunks import core_shares
from mavcg.hardware.accelerator import Accelerator
from mavcg.kernels.builder.emit import kernel_name
from mavcg.specs.kernel import KernelSpec, Machine
from mavcg.specs.tile_plan import TilePlan


def kernel_core_shares(
    specs: Sequence[KernelSpec],
    machines: Mapping[str, Machine],
    cores: Mapping[str, Accelerator],
    plan: TilePlan,
) -> dict[str, tuple[tuple[str, int], ...]]:
    """Return the core shares of each kernel, by its name: (label of a version, modelled speed of its core) pairs.

    The pairs are those of ProgramStep.core_speeds. machines, cores: by the version's label, as for plan_tiles. For a
    kernel without a model, cores count by their multiply-adds if the kernel is compute-bound (Winograd), else by their
    clocks. With one core type there are no shares.
    """
    if len(machines) < 2:
        return {}
    return {kernel_name(spec): _core_shares(spec, machines, cores, plan) for spec in specs}


def _core_shares(
    spec: KernelSpec, machines: Mapping[str, Machine], cores: Mapping[str, Accelerator], plan: TilePlan
) -> tuple[tuple[str, int], ...]:
    work = work_of(spec) if spec.rows else None
    seconds = []
    for label, machine in machines.items():
        core, macro = cores[label], plan.of(kernel_name(spec), label)
        if work is not None and macro is not None:
            cycles = cost(work, machine, core, macro).cycles
        else:
            cycles = 1.0 / core.pes if spec.compute_bound else 1.0
        seconds.append(cycles / core.frequency_ghz)
    return tuple(zip(machines, core_shares(seconds), strict=True))
