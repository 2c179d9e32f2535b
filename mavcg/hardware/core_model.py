"""One core of a board, as planners, cost models and predictions see it: known facts, and those that are assumed."""

from dataclasses import dataclass, field, replace

from mavcg.hardware.accelerator import MemoryLevel
from mavcg.hardware.board import Cluster
from mavcg.hardware.core import Core
from mavcg.hardware.cost_fit import CostFit
from mavcg.hardware.fits import fit_of_kind
from mavcg.hardware.issue_rates import IssueRates
from mavcg.hardware.machine import Machine
from mavcg.hardware.timing import Timing

F32_BYTES = 4


@dataclass(frozen=True)
class AssumedFact:
    """A fact of a board that no file gives.

    cluster: its number; None for a fact of the whole board. key: as in board files.
    """

    cluster: int | None
    key: str
    value: float
    unit: str


@dataclass(frozen=True)
class CoreModel:
    """One core of a cluster, while `cores` cores of the cluster work.

    machine: instruction set and vectors, of the version of kernels that it runs; its name is the version's label.
    number: of the cluster on its board. kind: of the core, which selects its constants (fit). ghz: clock.
    macs_per_cycle: f32 multiply-accumulates with every multiply-add pipe busy. levels: its share of each memory level,
    nearest first, with the bandwidth behind it. rates: instructions per cycle. core: facts of its file; None if there
    is none. timing: for the pipeline model; None if the core has no timing profile. assumed: a sentence for each
    missing fact of the board, with the value assumed and how to give the real one; every report that uses this core
    shows them. missing: the same facts as values. assumed_rates: a sentence for each unknown rate.
    """

    machine: Machine
    cluster: Cluster
    number: int
    kind: str
    ghz: float
    macs_per_cycle: int
    levels: tuple[MemoryLevel, ...]
    rates: IssueRates
    # These two follow from the core's name.
    core: Core | None = field(default=None, compare=False, repr=False)
    timing: Timing | None = field(default=None, compare=False, repr=False)
    cores: int = 1
    assumed: tuple[str, ...] = ()
    assumed_rates: tuple[str, ...] = ()
    missing: tuple[AssumedFact, ...] = ()

    @property
    def fit(self) -> CostFit:
        """Cost constants of the core's kind."""
        return fit_of_kind(self.kind)

    @property
    def label(self) -> str:
        """Label of the version of kernels that it runs."""
        return self.machine.name

    @property
    def lanes(self) -> int:
        """f32 elements per vector."""
        return self.machine.vector_bytes // F32_BYTES

    @property
    def cycle_ns(self) -> float:
        """Duration of a cycle, in nanoseconds."""
        return 1 / self.ghz

    @property
    def peak_gmac_per_s(self) -> float:
        """Peak rate in 10^9 multiply-accumulates per second, which is also MACs per ns."""
        return self.ghz * self.macs_per_cycle

    def running(self, machine: Machine) -> "CoreModel":
        """Return the core as it runs another version of kernels, such as a stand-in's."""
        return replace(self, machine=machine)

    def without_timing(self) -> "CoreModel":
        """Return the core with its instructions counted at its rates, in place of the pipeline model."""
        return replace(self, timing=None)
