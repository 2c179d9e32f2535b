"""Times primitives and conversions between layouts on this machine, in this process, on random numbers.

What is timed is the processor time of one thread, so that others who want the processor meanwhile do not count. The
first run, which brings everything into the caches, is not timed; nor is compiling, packing weights or filling memory.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mavcg.errors import MavcgError
from mavcg.kernel import Machine
from mavcg.primitive import F32_BYTES, Epilogue, Layout, Lowering, Place, Primitive, Scenario, Stage, image_elements
from mavcg.primitive_check import block_of, verify_scenario
from mavcg.primitive_jobs import Call, all_rows, memory
from mavcg.primitive_run import CompiledLowering
from mavcg.selection.costs import MEASURED, Cost
from mavcg.target import host_target

WITH_BIAS = Epilogue(bias=True)  # as nearly every convolution of a network has after fusion
IDLE_RUNS = 50
LEAST_SHARE = 0.05  # of what was measured: kernels that do next to nothing cost something
COLD_BYTES = 64 << 20  # read before each cold run: more than the caches that a core has to itself


@dataclass(frozen=True)
class Effort:
    """How long one figure is measured: at least so many rounds and milliseconds, runs of at least round_ms a round."""

    rounds: int = 5
    least_ms: float = 5.0
    round_ms: float = 1.0


QUICK = Effort()


def measure(
    scenario: Scenario,
    primitive: Primitive,
    machine: Machine,
    *,
    cold: bool = False,
    seed: int = 0,
    effort: Effort = QUICK,
) -> Cost:
    """The median time of computing a scenario by a primitive, with a bias, in one thread.

    cold: the caches are filled with something else before each run, which is then a round by itself.
    Raises: MavcgError where the primitive does not apply, and where this machine does not run the machine's code.
    """
    verify_scenario(scenario)
    _verify_here(machine)
    if not primitive.applies(scenario):
        raise MavcgError(f"{primitive.name}: does not compute {scenario}; measure one that applies")
    rng = np.random.default_rng(seed)
    s, block = scenario, block_of(machine)
    weights = rng.uniform(-1, 1, (s.m, s.c // s.groups, s.k, s.k)).astype(np.float32)
    lowering = primitive.lower(s, weights, WITH_BIAS, block)
    sizes = {
        "x": image_elements(primitive.layout_in, s.c, s.h, s.w, block) * F32_BYTES,
        "out": image_elements(primitive.layout_out, s.m, s.out_h, s.out_w, block) * F32_BYTES,
        "bias": s.m * F32_BYTES,
    }
    return _timed(lowering, sizes, machine, rng, cold, effort)


def measure_conversion(
    layout_from: Layout,
    layout_to: Layout,
    c: int,
    h: int,
    w: int,
    machine: Machine,
    *,
    cold: bool = False,
    seed: int = 0,
    effort: Effort = QUICK,
) -> Cost:
    """The median time of bringing an image into another layout. Raises: MavcgError as `measure` does."""
    from mavcg.kernels.primitives.convert import find_conversion, lower_conversion

    _verify_here(machine)
    block = block_of(machine)
    stage: Stage = lower_conversion(find_conversion(layout_from, layout_to), c, h, w, block)
    assert stage.operands == (Place("x"), Place("out"))
    lowering = Lowering((stage,), np.zeros(1, np.float32))
    sizes = {
        "x": image_elements(layout_from, c, h, w, block) * F32_BYTES,
        "out": image_elements(layout_to, c, h, w, block) * F32_BYTES,
    }
    return _timed(lowering, sizes, machine, np.random.default_rng(seed), cold, effort)


def _verify_here(machine: Machine) -> None:
    if machine.arch != host_target().arch:
        raise MavcgError(
            f"core '{machine.name}': this machine is {host_target().arch}; measure there and bring the costs here by "
            f"`mavcg tune --export` and `--import`"
        )


def _timed(
    lowering: Lowering, sizes: dict[str, int], machine: Machine, rng: np.random.Generator, cold: bool, effort: Effort
) -> Cost:
    operands = {
        base: memory(size, rng.uniform(-1, 1, size // F32_BYTES).astype(np.float32)) for base, size in sizes.items()
    }
    operands["weights"] = memory(lowering.weights.nbytes, lowering.weights)
    operands["workspace"] = memory(lowering.workspace_bytes)
    compiled = CompiledLowering(lowering, machine)
    tables = compiled.tables({base: held.address for base, held in operands.items()})
    calls = all_rows(lowering)
    idle = tuple(Call(call.stage, 0, 0) for call in calls)

    def run(calls: Sequence[Call] = calls) -> None:
        for call in calls:
            compiled.call(call, tables)

    evict = _evictor() if cold else None
    run()  # what is touched for the first time, and branches never seen
    found = _rounds(run, effort, evict)
    assert all(held.guards_hold for held in operands.values()), "written outside of an operand"
    # Calls from here cost more than those from a library: what calls without rows take is no part of the primitive.
    calling_ms = min(_thread_ns(lambda: run(idle), IDLE_RUNS) for _ in range(effort.rounds)) / IDLE_RUNS / 1e6
    return replace(found, ms=max(found.ms - calling_ms, found.ms * LEAST_SHARE))


def _rounds(run: Callable[[], None], effort: Effort, evict: Callable[[], object] | None) -> Cost:
    """evict: is called, untimed, before each round, which then is one run."""
    per_round = 1
    if evict is None:
        once_ns = max(_thread_ns(run, 1), 1)
        per_round = max(1, round(effort.round_ms * 1e6 / once_ns))
    times_ns: list[float] = []
    total_ns = 0.0
    while len(times_ns) < effort.rounds or total_ns < effort.least_ms * 1e6:
        if evict is not None:
            evict()
        took = _thread_ns(run, per_round)
        total_ns += max(took, 1)
        times_ns.append(took / per_round)
    low, middle, high = statistics.quantiles(times_ns, n=4, method="inclusive")
    return Cost(middle / 1e6, MEASURED, (high - low) / 1e6, per_round * len(times_ns))


def _thread_ns(run: Callable[[], None], times: int) -> int:
    before = time.thread_time_ns()
    for _ in range(times):
        run()
    return time.thread_time_ns() - before


def _evictor() -> Callable[[], object]:
    other = np.ones(COLD_BYTES // 8, np.float64)
    return lambda: other.sum()
