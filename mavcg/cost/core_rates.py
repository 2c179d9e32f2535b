"""All facts about one core that the cost model starts from, taken from a board's cluster."""

from dataclasses import dataclass, field, replace

from mavcg.errors import ProfileError
from mavcg.hardware.accelerator import MemoryLevel
from mavcg.hardware.core_model import CoreModel
from mavcg.hardware.fits import fit_of
from mavcg.hardware.instruction_mix import timing_rates, x86_rates
from mavcg.hardware.issue_rates import IssueRates
from mavcg.hardware.timing import MissingFact, Timing
from mavcg.profiles.timing import load_timing
from mavcg.specs.kernel import F32_BYTES, Machine


@dataclass(frozen=True)
class CoreRates:
    """One core as the cost model sees it, with its share of caches and bandwidth.

    label: version of the kernels that it runs. machine: the core as emitters see it. issue: instructions per cycle.
    ghz: clock. levels: its share of each memory level, nearest first, with the bandwidth behind it in GB/s. timing: for
    the pipeline model; None if the core has no timing profile. assumed: a sentence for each unknown rate.
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
        """f32 elements per vector."""
        return self.machine.vector_bytes // F32_BYTES

    @property
    def cycle_ns(self) -> float:
        """Duration of a cycle, in nanoseconds."""
        return 1 / self.ghz


def core_rates(label: str, machine: Machine, cluster: CoreModel) -> CoreRates:
    """Return the facts about a core of this cluster that runs the version `label` of its kernels.

    Multiply-adds per cycle are those measured on the machine, else those of the core's file, else typical ones.
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
        fma_per_cycle=cluster.rates.fma_per_cycle,
        vector_per_cycle=max(issue.vector_per_cycle, cluster.rates.fma_per_cycle),
    )
    return CoreRates(label, machine, issue, cluster.ghz, cluster.levels, timing, assumed)
