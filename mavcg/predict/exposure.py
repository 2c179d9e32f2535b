"""The exposed memory time of a step, which does not overlap with its arithmetic, by its kernel's access pattern.

An in-order core waits for every line that its prefetcher has not fetched, an out-of-order core for the lines whose
latency its window does not cover. The exposed fractions ([exposed] in profiles/fits) are fitted to simulated layers of
networks (`python -m bench.simulated_exposure`). Without fractions, arithmetic and memory overlap as in a roofline.
"""

from mavcg.cost_model.memory import level_ns
from mavcg.hardware.accelerator import MemoryLevel
from mavcg.hardware.cost_fit import ExposedFit

PRODUCTS, WINOGRAD, UNBLOCKED, DIRECT, DEPTHWISE = "products", "winograd", "unblocked", "direct", "depthwise"
POOLS, COLUMNS, MOVES = "pools", "columns", "moves"
PATTERNS = (PRODUCTS, WINOGRAD, UNBLOCKED, DIRECT, DEPTHWISE, POOLS, COLUMNS, MOVES)
NEAR, FAR = "near", "far"
# By the words with which kernels' names begin, the first that fits.
_BEGINNINGS = (
    ("direct_columns", COLUMNS), ("sum2d", DEPTHWISE), ("csr", COLUMNS), ("bcsr", COLUMNS), ("direct", DIRECT),
    ("im2_product", UNBLOCKED), ("kn2", UNBLOCKED), ("conv2d", PRODUCTS), ("qconv2d", PRODUCTS), ("iconv2d", PRODUCTS),
    ("winograd_2d", WINOGRAD), ("winograd_products", WINOGRAD), ("matmul", PRODUCTS), ("depthwise", DEPTHWISE),
    ("qdepthwise", DEPTHWISE), ("max_pool", POOLS), ("average_pool", POOLS),
)  # fmt: skip


def memory_pattern(kernel: str) -> str:
    """Return the memory access pattern of a kernel of this name: one of PATTERNS."""
    return next((pattern for beginning, pattern in _BEGINNINGS if kernel.startswith(beginning)), MOVES)


def waits_for_write_backs(fit: ExposedFit | None) -> bool:
    """True if writing lines back counts as time of the step that wrote them.

    It does not count for cores with fitted fractions: dirty lines leave while other lines arrive, or during later
    steps.
    """
    return fit is None


def near_and_far_ns(crossing: tuple[float, ...], levels: tuple[MemoryLevel, ...]) -> tuple[float, float]:
    """Return the ns to read the bytes from all caches behind level 1, and the ns to read those from memory.

    crossing: bytes between each level and the level behind it (memory.Moved).
    """
    ns = level_ns(crossing, levels)
    return sum(ns[:-1]), ns[-1] if ns else 0.0


def exposed_ns(
    kernel: str, crossing: tuple[float, ...], levels: tuple[MemoryLevel, ...], fit: ExposedFit | None
) -> float:
    """Return the exposed memory time of a step in ns; 0 if nothing was fitted."""
    if fit is None:
        return 0.0
    pattern = memory_pattern(kernel)
    near, far = near_and_far_ns(crossing, levels)
    return float(getattr(fit, f"{pattern}_{NEAR}") * near + getattr(fit, f"{pattern}_{FAR}") * far)
