"""Cut a layer's work so that unequal cores end it together: smaller chunks, and rows of work in parts.

Small images have too few rows: 14x14 pixels are four rows of work of a 1x1 convolution. So a row is cut along its
output channels, and work that is already cut along output channels is given out in smaller numbers of panels. The gain
is simulated by the engine's rule of guided self-scheduling (cost/guided_chunks.py) with the modelled speeds of
all cores of a board. With one thread nothing changes: calls have the same size and rows the same register tiles.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import lcm

from mavcg.cost.guided_chunks import simulated_ns
from mavcg.cost.kernel_work import KernelWork, registers
from mavcg.hardware.core_model import CoreModel
from mavcg.specs.kernel import Machine
from mavcg.specs.tile_plan import MacroTile, worthwhile_chunk_rows

# Factors on the modelled time of every second core: the model has errors, and cores throttle or are interrupted.
MODEL_ERRORS = (0.8, 1.0, 1.25)
GAIN = 0.985  # smaller chunks must take less than this fraction of the time
NEAR_IDEAL = 1.03  # a split within this multiple of the ideal time is not improved further
# Beyond this multiple of the ideal time parts may be narrower than a register tile. A kernel then has loops of both
# widths and takes longer to build: with 1.1 MobileNet v2 for a Cortex-A55 has 18 percent more products in its code,
# with 1.25 it has 6.
FAR_FROM_IDEAL = 1.25


@dataclass(frozen=True)
class CoreTeam:
    """Core types that compute a layer together: one core of each, and the number of cores of each."""

    cores: tuple[CoreModel, ...]
    counts: tuple[int, ...]

    @property
    def all_cores(self) -> list[CoreModel]:
        """Each core once for every core of its type, the cores of a type next to each other."""
        return [core for core, count in zip(self.cores, self.counts, strict=True) for _ in range(count)]

    @property
    def fastest(self) -> "CoreTeam":
        """The cores of the fastest type alone."""
        number = max(range(len(self.cores)), key=lambda n: self.cores[n].peak_gmac_per_s)
        return CoreTeam((self.cores[number],), (self.counts[number],))


def core_team(cores: Mapping[str, CoreModel], counts: Mapping[str, int]) -> CoreTeam:
    """Return the team of the core types that are present. cores, counts: by the version's label."""
    present = [label for label, count in counts.items() if count]
    return CoreTeam(tuple(cores[label] for label in present), tuple(counts[label] for label in present))


def over_ideal(
    rows: int, min_chunk: int, counts: Sequence[int], seconds: Sequence[float], slowdowns: Sequence[float] | None = None
) -> float:
    """Return the simulated time of a layer over the time of an ideal split.

    It is the mean over MODEL_ERRORS, and over the first or the last core as the calling thread. By core type: counts,
    number of cores; seconds, time in which one core alone would compute the layer; slowdowns, time of a layer in chunks
    of this size over its time in large ones, 1 if not given.
    """
    types = [number for number, count in enumerate(counts) for _ in range(count)]
    modelled = [seconds[number] / rows for number in types]
    slowdowns = slowdowns or [1.0] * len(counts)
    ratios = []
    for error in MODEL_ERRORS:
        actual = [alone * (error if core % 2 else 1.0) for core, alone in enumerate(modelled)]
        ideal = rows / sum(1 / alone for alone in actual)
        slowed_down = [alone * slowdowns[number] for alone, number in zip(actual, types, strict=True)]
        for order in (slice(None), slice(None, None, -1)):
            end = simulated_ns(rows, min_chunk, slowed_down[order], [0.0] * len(types), modelled[order])
            ratios.append(end / ideal)
    return sum(ratios) / len(ratios)


def panel_chunk(work: KernelWork, call_rows: int, team: CoreTeam, seconds: Sequence[float]) -> tuple[int, int]:
    """Return (minimum chunk, parts) of work that is cut along output channels.

    The minimum chunk counts panels, at most those of a call, and parts is 1. If panels are still too coarse, it counts
    parts of a panel, which are rows of pixels, and parts is their number per panel. seconds: as for over_ideal.
    """
    spec = work.spec
    least, step = min(call_rows, worthwhile_chunk_rows(spec)), chunk_panels(work, team)
    best, best_ratio = (call_rows, 1), over_ideal(spec.rows, call_rows, team.counts, seconds)
    for min_chunk, parts in ((-(-least // step) * step, 1), (least, 1), *_row_parts(work, team)):
        if best_ratio <= NEAR_IDEAL or min_chunk >= best[0] * parts / best[1]:
            continue
        slowdowns = [slowdown(work, core.machine, -(-min_chunk // parts)) for core in team.cores]
        ratio = over_ideal(spec.rows * parts, min_chunk, team.counts, seconds, slowdowns)
        if ratio < GAIN * best_ratio:
            best, best_ratio = (min_chunk, parts), ratio
    return best


def _row_parts(work: KernelWork, team: CoreTeam) -> list[tuple[int, int]]:
    """Return candidates (minimum chunk, parts) of panels cut along rows of pixels; none if tiles cross rows."""
    spec = work.spec
    if work.layer.groups > 1 or work.layer.oh < 2:
        return []
    if any(registers(work, core.machine, MacroTile(), work.layer.oc).crossing for core in team.cores):
        return []
    counts = dict.fromkeys(-(-work.layer.oh // rows) for rows in range(work.layer.oh // 2, 0, -1))
    return [(1, parts) for parts in counts if worthwhile_chunk_rows(spec, parts) == 1]


def panels_of_a_part(work: KernelWork, team: CoreTeam, seconds: Sequence[float]) -> int:
    """Return the panels in each part of a row of pixels; all panels if the row need not or cannot be cut.

    seconds: as for over_ideal.
    """
    spec = work.spec
    if work.by_channels or not work.rules.packed or work.layer.groups > 1:
        return work.panels
    whole_rows = over_ideal(spec.rows, worthwhile_chunk_rows(spec), team.counts, seconds)
    best, best_ratio = work.panels, whole_rows
    step = chunk_panels(work, team)
    sizes = dict.fromkeys(-(-work.panels // number) for number in range(2, work.panels + 1))
    for narrow in (False, True):
        for panels in sizes:
            parts = -(-work.panels // panels)
            if best_ratio <= (FAR_FROM_IDEAL if narrow else NEAR_IDEAL) or worthwhile_chunk_rows(spec, parts) > 1:
                break  # shared out well enough, or in parts that are not worth a chunk
            if (panels % step != 0) is not narrow:
                continue
            slowdowns = [slowdown(work, core.machine, panels) for core in team.cores]
            ratio = over_ideal(spec.rows * parts, 1, team.counts, seconds, slowdowns)
            if ratio < GAIN * best_ratio:
                best, best_ratio = panels, ratio
    return best


def chunk_panels(work: KernelWork, team: CoreTeam) -> int:
    """Return the smallest number of panels that is a whole number of register tiles on all machines."""
    channels = [registers(work, core.machine, MacroTile(), work.layer.oc).channels for core in team.cores]
    return lcm(*(max(1, count // work.rules.panel) for count in channels))


def slowdown(work: KernelWork, machine: Machine, panels: int) -> float:
    """Return the time per channel of `panels` panels at a time over that of all panels at once, 1 or more.

    Few panels may have narrower register tiles than the best ones of the core.
    """

    def cycles(channels: int) -> float:
        return registers(work, machine, MacroTile(), channels).shared_cycles / channels

    if work.rules.single_panels and work.by_channels:
        return 1.0  # 8-bit kernels compute one panel at a time anyway when panels are the rows of work
    return max(1.0, cycles(min(work.layer.oc, panels * work.rules.panel)) / cycles(work.layer.oc))
