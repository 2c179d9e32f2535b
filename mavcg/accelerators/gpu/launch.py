"""Launches: kernels with their grids, threads, shared memory and buffers, in execution order."""

from dataclasses import dataclass

from mavcg.accelerators.gpu.kernel_plan import Kernel
from mavcg.accelerators.gpu.layer_source import SUM_THREADS, sum_blocks

BUFFERS = ("input", "weights", "output", "bias", "residual", "partial")


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel. arguments: names of its six buffers; "" is a null pointer."""

    function: str
    grid: tuple[int, int, int]
    threads: int
    shared_bytes: int
    arguments: tuple[str, ...]


def launches_of(kernel: Kernel, function: str) -> tuple[Launch, ...]:
    """Return the launches that compute a layer, with its buffers by the names of BUFFERS."""
    layer = kernel.layer
    present = {
        "input": True,
        "output": True,
        "weights": layer.kind == "conv",
        "bias": layer.kind == "conv",
        "residual": layer.residual,
        "partial": kernel.partial_bytes > 0,
    }
    arguments = tuple(name if present[name] else "" for name in BUFFERS)
    first = Launch(function, kernel.grid, kernel.threads, kernel.shared_bytes, arguments)
    if kernel.splits == 1:
        return (first,)
    return first, Launch(f"{function}_sum", (sum_blocks(kernel), 1, 1), SUM_THREADS, 0, arguments)
