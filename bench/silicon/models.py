"""The models that published figures are held against: each gives the cycles of a call on a core.

A model takes a `Run` (an image, a function of it, arguments, and the instructions that the call executes) and a core's
timing. A further model, such as a simulator, is a further entry of MODELS.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench.silicon.dynamic_path import NotModelled
from mavcg.assembly.code_image import CodeImage
from mavcg.errors import MavcgError
from mavcg.hardware.timing import Timing
from mavcg.passes.asm.isa.op import Op
from mavcg.passes.asm.models.estimate import block_cycles


@dataclass(frozen=True)
class Run:
    """One call: what a model may look at. ops: the executed instructions in order."""

    image: CodeImage
    function: str
    arguments: str
    ops: tuple[Op, ...]


Model = Callable[[Run, Timing], float]
WARM_CALLS = 6  # a benchmark calls a function thousands of times


def analytic_cycles(run: Run, timing: Timing) -> float:
    """Return the cycles of the pipeline models for the executed instructions as one straight line of code.

    In order: issue by issue. Out of order: with a window and queues, or a larger lower bound. Both leave out branch
    misses, caches and what goes through memory. Raises: NotModelled where the core's facts do not suffice.
    """
    try:
        return block_cycles(run.ops, timing)
    except MavcgError as error:
        raise NotModelled(str(error)) from None


def simulated_cycles(run: Run, timing: Timing) -> float:
    """Return the cycles of a call in the simulator, after calls that let the branch predictor learn it.

    Raises: NotModelled where the call does not return, or the core's facts do not suffice.
    """
    from mavcg.profiles.load import load_core
    from mavcg.simulate.simulation import simulate

    try:
        found = simulate(run.image, run.function, run.arguments, load_core(timing.core), timing, warm=WARM_CALLS)
    except MavcgError as error:
        raise NotModelled(str(error)) from None
    return float(found.counts.cycles)


MODELS: Mapping[str, Model] = {"analytic": analytic_cycles, "simulated": simulated_cycles}
