"""The facts about one core that every part of the cost model starts from, gathered once from a board's cluster."""

from dataclasses import dataclass, field, replace

from mavcg.cost_model.board_machine import ClusterMachine
from mavcg.cost_model.fits import fit_of
from mavcg.cost_model.instruction_mix import timing_rates, x86_rates
from mavcg.errors import ProfileError
from mavcg.hardware.accelerator import MemoryLevel
from mavcg.hardware.issue_rates import IssueRates
from mavcg.hardware.timing import MissingFact, Timing
from mavcg.profiles.timing import load_timing
from mavcg.specs.kernel import F32_BYTES, Machine


@dataclass(frozen=True)
class CoreRates:
    """One core as the cost model knows it, while as many cores work as its shares of caches and bandwidth are for.

    label: of the version of kernels that it runs. machine: the core as emitters know it. issue: instructions per cycle.
    ghz: its clock. levels: its share of each memory level, the nearest first, with the bandwidth in GB/s of what is
    behind it. timing: for the pipeline model; None: the core has no timing profile. assumed: a sentence for each rate
    that was not known.
    """

    label: str
    machine: Machine
    issue: IssueRates
    ghz: float
    levels: tuple[MemoryLevel, ...]
    timing: Timing | None = field(default=None, compare=False)  # it follows from the label
    assumed: tuple[str, ...] = ()

    @property
    def lanes(self) -> int:
        """f32 elements of a vector."""
        return self.machine.vector_bytes // F32_BYTES

    @property
    def cycle_ns(self) -> float:
        """Nanoseconds of a cycle."""
        return 1 / self.ghz


def core_rates(label: str, machine: Machine, cluster: ClusterMachine) -> CoreRates:
    """Return the facts about a core of this cluster that runs the version `label` of its kernels.

    Multiply-adds per cycle are those measured on the machine, else those of the core's file, else what is typical.
    """
    core = cluster.core
    timing: Timing | None = None
    assumed: tuple[str, ...] = ()
    if machine.arch == "x86_64":
        issue, assumed = x86_rates(core)
    elif core is None:
        issue, assumed = fit_of(machine).typical_rates, (f"{label}: no facts; a typical core's rates are assumed",)
    else:
        try:
            timing = load_timing(core)
            issue = timing_rates(timing)
        except (MissingFact, ProfileError) as error:
            timing, issue = None, fit_of(machine).typical_rates
            assumed = (f"{error}; rates of a typical core are assumed",)
    issue = replace(
        issue,
        fma_per_cycle=cluster.fma_per_cycle,
        vector_per_cycle=max(issue.vector_per_cycle, cluster.fma_per_cycle),
    )
    accelerator = cluster.accelerator
    return CoreRates(label, machine, issue, accelerator.frequency_ghz, accelerator.levels, timing, assumed)
