"""The limit of a layer on a machine: the larger of the times of its arithmetic and of its bytes (roofline).

Nothing that computes the layer by the same algorithm takes less time. Source: Williams, Waterman and Patterson,
"Roofline: An Insightful Visual Performance Model for Multicore Architectures" (CACM 2009).
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from mavcg.errors import MavcgError
from mavcg.hosts.rates import HostRates

NEAR = 1.15  # a layer above its limit by more has something to gain


@dataclass(frozen=True)
class LayerWork:
    """The least work of a step.

    multiply_adds: of its algorithm, of Winograd those of products and transforms. arithmetic: the type that it
    multiplies in, "" without products. weight_bytes, tensor_bytes: constants, and inputs and outputs, each once;
    workspaces between the steps of a layer are left out. trips: times that a loop repeats it.
    """

    multiply_adds: int
    arithmetic: str
    weight_bytes: int
    tensor_bytes: int
    trips: int = 1

    def as_json(self) -> dict[str, Any]:
        """Return the entry of a library's note."""
        return {"limit": {key: value for key, value in asdict(self).items() if key != "trips" or value > 1}}

    @property
    def bytes(self) -> int:
        """All bytes of a run."""
        return self.trips * (self.weight_bytes + self.tensor_bytes)


@dataclass(frozen=True)
class Limit:
    """The least time of a layer in seconds, of its arithmetic and of its bytes."""

    arithmetic_s: float
    memory_s: float

    @property
    def limit_s(self) -> float:
        """The larger of both."""
        return max(self.arithmetic_s, self.memory_s)

    @property
    def bound_by(self) -> str:
        """The longer one: "arithmetic" or "memory"."""
        return "arithmetic" if self.arithmetic_s > self.memory_s else "memory"


def limit_of(steps: Iterable[LayerWork], rates: HostRates, run_bytes: int) -> Limit:
    """Return the limit of the steps of a layer. run_bytes: all that a run of the network touches.

    Weights come from the nearest memory that holds all that a run touches, as they are used once in a run; tensors,
    which the layer before has just written, from the nearest that holds them.
    """
    steps = tuple(steps)
    tensor_bytes = sum(step.trips * step.tensor_bytes for step in steps)
    weight_bytes = sum(step.weight_bytes for step in steps)  # a loop's later iterations have them near
    arithmetic_s = sum(
        step.trips * step.multiply_adds / rates.products_per_s[step.arithmetic] for step in steps if step.multiply_adds
    )
    memory_s = rates.read_s(weight_bytes, run_bytes) + rates.read_s(tensor_bytes, tensor_bytes)
    return Limit(arithmetic_s, memory_s)


def works_of_note(note: Mapping[str, Any], library: str) -> tuple[LayerWork, ...]:
    """Return the work of each step from a library's note. Raises: MavcgError for a library that was built without."""
    if not all("limit" in step for step in note["steps"]):
        raise MavcgError(
            f"{library}: was built by an earlier mavcg, which did not note operations and bytes for --limit; build it "
            "again"
        )
    return tuple(LayerWork(**step["limit"]) for step in note["steps"])
