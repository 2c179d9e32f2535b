"""The cores of a board, as planners, cost models and predictions see them: known facts, and those that are assumed."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mavcg.errors import MavcgError
from mavcg.hardware.accelerator import MemoryLevel
from mavcg.hardware.board import Board, Cluster
from mavcg.hardware.core import GENERIC, Core
from mavcg.hardware.cost_fit import CostFit
from mavcg.hardware.issue_rates import IssueRates
from mavcg.hardware.machine import Machine
from mavcg.hardware.timing import Timing
from mavcg.toolchain.target import Target

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
    number: of the cluster on its board. fit: constants of the cost model for its kind of core. ghz: clock.
    macs_per_cycle: f32 multiply-accumulates with every multiply-add pipe busy. levels: its share of each memory level,
    nearest first, with the bandwidth behind it. rates: instructions per cycle. core: facts of its file; None if there
    is none. timing: for the pipeline model; None if the core has no timing profile. assumed: a sentence for each
    missing fact of the board, with the value assumed and how to give the real one; every report that uses this core
    shows them. missing: the same facts as values. assumed_rates: a sentence for each unknown rate.
    """

    machine: Machine
    cluster: Cluster
    number: int
    fit: CostFit = field(compare=False, repr=False)  # follows from the machine and the core's file
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


@dataclass(frozen=True)
class BoardModel:
    """The cores that a library is built for, made once a build: a board's, or typical ones if no board is named.

    board: its facts; without a named board, a core of each version. named: True for a named board. versions: by label
    of each version of kernels, one core that works alone: of the board's first cluster with that core, else a typical
    one. counts: cores of each label that work on one layer. clusters: one core of each cluster, working alone; teams:
    the same while all cores of its cluster work.
    """

    board: Board
    target: Target
    named: bool
    versions: Mapping[str, CoreModel]
    counts: Mapping[str, int]
    clusters: tuple[CoreModel, ...]
    teams: tuple[CoreModel, ...]

    @property
    def machines(self) -> dict[str, Machine]:
        """The versions as emitters see them, by label."""
        return {label: core.machine for label, core in self.versions.items()}

    @property
    def fastest_first(self) -> list[CoreModel]:
        """One core of each cluster, the fastest first. Raises: MavcgError for a board without clusters."""
        if not self.clusters:
            raise MavcgError(no_cores(self.board))
        return sorted(self.clusters, key=lambda core: -core.peak_gmac_per_s)

    @property
    def by_speed(self) -> list[CoreModel]:
        """The same cores as each runs its version in this library, its instructions counted at its rates."""
        return [core.running(self.version_of(core)).without_timing() for core in self.fastest_first]

    def version_of(self, core: CoreModel) -> Machine:
        """Return the version that a core of the board runs: its own, or the generic one."""
        return self.versions[core.label if core.label in self.versions else GENERIC].machine

    def team_of(self, core: CoreModel) -> list[CoreModel]:
        """Return all cores of a core's cluster, each with its share of the caches."""
        team = self.teams[core.number]
        return [team] * team.cores


def no_cores(board: Board) -> str:
    """Return what to say of a board of which no core is known."""
    return (
        f"--board {board.name}: none of its cores is known, so there is no machine to plan for; "
        f"name a --board of `mavcg cores`, or an --accelerator file"
    )
