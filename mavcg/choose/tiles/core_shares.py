"""Core shares of each step: the relative speeds of a build's core types, by which threads take chunks."""

from collections.abc import Mapping, Sequence

from mavcg.cost.guided_chunks import core_shares
from mavcg.cost.kernel_cost import cost
from mavcg.cost.kernel_work import work_of
from mavcg.hardware.core_model import CoreModel
from mavcg.kernels.builder.emit import kernel_name
from mavcg.specs.kernel import KernelSpec
from mavcg.specs.tile_plan import TilePlan


def kernel_core_shares(
    specs: Sequence[KernelSpec],
    cores: Mapping[str, CoreModel],
    plan: TilePlan,
) -> dict[str, tuple[tuple[str, int], ...]]:
    """Return the core shares of each kernel, by its name: (label of a version, modelled speed of its core) pairs.

    The pairs are those of ProgramStep.core_speeds. cores: by the version's label, as for plan_tiles. For a
    kernel without a model, cores count by their multiply-adds if the kernel is compute-bound (Winograd), else by their
    clocks. With one core type there are no shares.
    """
    if len(cores) < 2:
        return {}
    return {kernel_name(spec): _core_shares(spec, cores, plan) for spec in specs}


def _core_shares(spec: KernelSpec, cores: Mapping[str, CoreModel], plan: TilePlan) -> tuple[tuple[str, int], ...]:
    work = work_of(spec) if spec.rows else None
    seconds = []
    for label, core in cores.items():
        macro = plan.of(kernel_name(spec), label)
        if work is not None and macro is not None:
            cycles = cost(work.spec, macro, core).total
        else:
            cycles = 1.0 / core.macs_per_cycle if spec.compute_bound else 1.0
        seconds.append(cycles / core.ghz)
    return tuple(zip(cores, core_shares(seconds), strict=True))
