"""The work that each step of a program must do at least, for the limits of its layers (cost/limit.py)."""

from collections.abc import Sequence

from mavcg.choose.plan import Plan
from mavcg.choose.predict.work import INPUT, OUTPUT, WEIGHT, StepWork, Touch
from mavcg.cost.limit import LayerWork
from mavcg.kernels.primitives.sparse.product import SparseProduct
from mavcg.specs.kernel import KernelSpec

GATHER = "gather"  # family of kernels that read as many elements as they write, of a table of any size


def layer_works(plan: Plan, works: Sequence[StepWork]) -> tuple[LayerWork, ...]:
    """Return the least work of every step, in order. works: the steps' work (program_work.step_works)."""
    found = []
    for work, step in zip(works, plan.lowered.steps, strict=True):
        begin, size = plan.memory.workspaces.get(step.node.output, (0, 0))
        touches = [t for t in work.touches if not (t.base == "arena" and begin <= t.begin < begin + size)]
        found.append(least_work(step.spec, touches, work.trips))
    return tuple(found)


def least_work(spec: KernelSpec, touches: Sequence[Touch], trips: int = 1) -> LayerWork:
    """Return the least work of a kernel. touches: its operands without workspaces."""
    sizes = {role: [t.bytes for t in touches if t.role == role] for role in (INPUT, WEIGHT, OUTPUT)}
    if sizes[INPUT]:
        sizes[INPUT][0] = min(sizes[INPUT][0], _read_bytes(spec, sizes[INPUT][0]))
    written = sum(sizes[OUTPUT])
    if spec.family.startswith(GATHER):
        for role in (INPUT, WEIGHT):
            sizes[role] = [min(size, written) for size in sizes[role]]
    multiply_adds = spec.multiply_adds
    if isinstance(spec, SparseProduct):  # of the weights that are stored, which its spec does not have
        stored = spec.loaded_iterations(sizes[WEIGHT][0]) * spec.blocks
        multiply_adds = round(stored * spec.block_rows * spec.pixels)
    return LayerWork(
        multiply_adds,
        spec.arithmetic if multiply_adds else "",
        sum(sizes[WEIGHT]),
        sum(sizes[INPUT]) + written,
        trips,
    )


def _read_bytes(spec: KernelSpec, size_bytes: int) -> int:
    """Return the bytes of the first input that windows reach: a 1x1 filter with a stride leaves pixels out."""
    if spec.products is None or spec.products.window.taps > 1 or spec.products.sizes.read_rows == 1:
        return size_bytes
    sizes, groups = spec.products.sizes, spec.products.window.groups
    return sizes.read_rows * sizes.read_columns * sizes.in_channels * groups * sizes.item_bytes
