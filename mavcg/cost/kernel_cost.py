"""The cost of a kernel on a core: what macro-tiles, algorithms and layouts are chosen by.

A sum of products is priced by its macro-tile (macro_tile.py), every other kernel by the work that its spec counts
(counted_work.py). Both are computed before the kernel's code is made, hundreds for a kernel. docs/design/one-price.md
lists the callers, and says how the cycles of emitted code (choose/predict) follow from the same facts.
"""

from mavcg.cost.counted_work import ALONE, Run, counted_cycles
from mavcg.cost.cycles import ALL_TERMS, Cycles, Term
from mavcg.cost.kernel_work import work_of
from mavcg.cost.macro_tile import tile_cycles
from mavcg.errors import MavcgError
from mavcg.hardware.core_model import CoreModel
from mavcg.hardware.cost_fit import PrimitiveFit
from mavcg.kernels.builder.emit import kernel_name
from mavcg.specs.kernel import KernelSpec
from mavcg.specs.tile_plan import MacroTile


def cost(
    spec: KernelSpec,
    blocking: MacroTile | None,
    core: CoreModel,
    terms: frozenset[Term] = ALL_TERMS,
    run: Run = ALONE,
    constants: PrimitiveFit | None = None,
) -> Cycles:
    """Return the cycles of all rows of a kernel on one core, executed in sequence.

    blocking: the macro-tile; its cost is the roofline and the given further terms. None: the kernel cuts its own work,
    and its cost is that of the work that its spec counts; run, constants: as for counted_cycles.
    Raises: MavcgError where the kernel has no such cost.
    """
    if blocking is None:
        counts = spec.counts(core.machine, run.weight_bytes)
        if counts is None:
            raise MavcgError(f"{kernel_name(spec)}: its work is not counted, so it has no cost; give a macro-tile")
        return counted_cycles(counts, core, run, constants)
    work = work_of(spec)
    if work is None:
        raise MavcgError(f"{kernel_name(spec)}: is no sum of products, so it has no macro-tiles; give none")
    return tile_cycles(work, core, blocking, terms)
