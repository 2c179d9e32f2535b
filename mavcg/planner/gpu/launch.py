"""Launches: kernels with their blocks, threads, shared memory and buffers, in the order that they run."""

from dataclasses import dataclass

from mavcg.planner.gpu.kernel_plan import Kernel
from mavcg.planner.gpu.layer_source import SUM_THREADS, sum_blocks

BUFFERS = ("input", "weights", "output", "bias", "residual", "partial")


@dataclass(frozen=True)
class Launch:
    """One kernel's run. arguments: names of six buffers; "" is null."""

    function: str
    grid: tuple[int, int, int]
    threads: int
    shared_bytes: int
    arguments: tuple[str, ...]


def launches_of(kernel: Kernel, function: str) -> tuple[Launch, ...]:
    """Return the runs that compute a layer, with its own buffers by the names of BUFFERS."""
    layer = kernel.layer
    present = {
        "input": True, "output": True, "weights": layer.kind == "conv", "bias": layer.kind == "conv",
        "residual": layer.residual, "partial": kernel.partial_bytes > 0,
    }  # fmt: skip
    arguments = tuple(name if present[name] else "" for name in BUFFERS)
    first = Launch(function, kernel.grid, kernel.threads, kernel.shared_bytes, arguments)
    if kernel.splits == 1:
        return (first,)
    return first, Launch(f"{function}_sum", (sum_blocks(kernel), 1, 1), SUM_THREADS, 0, arguments)
