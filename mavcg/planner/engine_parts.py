"""How finely a layer's work is cut so that unequal cores end it together: smaller claims, and rows of work in parts.

Of small images rows are too few: 14x14 pixels are four rows of a 1x1 convolution. So a row is cut along its output
channels, and work that is cut along output channels already may be claimed in smaller numbers of them. What pays is
played through with the engine's rule of claims (claims.py) and the modelled speeds of all cores of a board. With one
thread nothing changes: calls are as large as ever, and whole rows are computed with the same register tiles.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm

from mavcg.board import Board
from mavcg.kernel import Machine
from mavcg.kernels import conv_tiling
from mavcg.kernels.conv_spec import Conv2d, Convolution
from mavcg.planner.claims import shared_ns
from mavcg.planner.engine_cost import Work, registers
from mavcg.tile_plan import MacroTile, least_claim_rows

TYPICAL_CORES = 4  # of a type, where no board says
# No model is exact, and cores get warm or are disturbed: every second one may really take so much of the modelled time.
UNSURE = (0.8, 1.0, 1.25)
GAIN = 0.985  # of the time: what finer claims must be below
FAIR = 1.03  # of the ideal: there is nothing to be gained any more
# Of the ideal: from here on parts may be narrower than a register tile. A kernel then has the loops of both and takes
# longer to build: with 1.1 MobileNet v2 for a Cortex-A55 has 18 percent more products in its code, with 1.25 it has 6.
UNFAIR = 1.25


@dataclass(frozen=True)
class Cores:
    """Core types that share a layer: of each its machine, the seconds that one core would take for all of it, and how
    many cores there are."""

    machines: tuple[Machine, ...]
    seconds: tuple[float, ...]
    counts: tuple[int, ...]


def cores_each(labels: Sequence[str], board: Board | None) -> dict[str, int]:
    """How many cores of each label's type there are: the board's, or what is typical where it has none of them."""
    clusters = board.clusters if board is not None else ()
    found = {label: sum(len(c.cpus) for c in clusters if c.core == label) for label in labels}
    if any(found.values()):
        return found
    return {label: TYPICAL_CORES if label != "generic" or len(labels) == 1 else 0 for label in labels}


def over_ideal(rows: int, grain: int, cores: Cores, slower: Sequence[float]) -> float:
    """When a layer ends beside the ideal split, the mean over UNSURE and over either end of the cores as the caller.

    slower: how many times as long each type takes for a layer in claims of that size.
    """
    types = [number for number, count in enumerate(cores.counts) for _ in range(count)]
    told = [cores.seconds[number] / rows for number in types]
    found = []
    for other in UNSURE:
        rows_s = [each * (other if core % 2 else 1.0) for core, each in enumerate(told)]
        ideal = rows / sum(1 / each for each in rows_s)
        shown = [each * slower[number] for each, number in zip(rows_s, types, strict=True)]
        for way in (slice(None), slice(None, None, -1)):
            found.append(shared_ns(rows, grain, shown[way], [0.0] * len(types), told[way]) / ideal)
    return sum(found) / len(found)


def panels_claimed(work: Work, task_rows: int, cores: Cores) -> tuple[int, int]:
    """Of work that is cut along output channels: panels that a thread claims at least, at most a task, and 1; or, where
    that is still too much at a time, parts of a panel that it claims, and how many parts a panel has: rows of pixels.
    """
    spec = work.spec
    least, chunk = min(task_rows, least_claim_rows(spec)), chunk_panels(work, cores)
    best, so_far = (task_rows, 1), over_ideal(spec.rows, task_rows, cores, [1.0] * len(cores.machines))
    for claim, parts in ((-(-least // chunk) * chunk, 1), (least, 1), *_row_parts(work, cores)):
        if so_far <= FAIR or claim >= best[0] * parts / best[1]:
            continue
        slower = [slowed(work, machine, -(-claim // parts)) for machine in cores.machines]
        found = over_ideal(spec.rows * parts, claim, cores, slower)
        if found < GAIN * so_far:
            best, so_far = (claim, parts), found
    return best


def _row_parts(work: Work, cores: Cores) -> list[tuple[int, int]]:
    """(claim, parts) of panels that are cut along the rows of pixels: none where tiles go on from row to row."""
    spec = work.spec
    assert isinstance(spec, Convolution)
    if spec.groups > 1 or spec.pixel_rows < 2:
        return []
    if any(registers(work, machine, MacroTile(), spec.out_channels).crossing for machine in cores.machines):
        return []
    counts = dict.fromkeys(-(-spec.pixel_rows // rows) for rows in range(spec.pixel_rows // 2, 0, -1))
    return [(1, parts) for parts in counts if least_claim_rows(spec, parts) == 1]


def panels_of_a_part(work: Work, cores: Cores) -> int:
    """Panels of the parts that a row of pixels is cut into; all of a row's where it need not be, or cannot be cut."""
    spec = work.spec
    assert isinstance(spec, Convolution)
    if work.by_channels or not work.packed or spec.groups > 1:
        return spec.panels
    best, so_far = spec.panels, over_ideal(spec.rows, least_claim_rows(spec), cores, [1.0] * len(cores.machines))
    chunk = chunk_panels(work, cores)
    sizes = dict.fromkeys(-(-spec.panels // number) for number in range(2, spec.panels + 1))
    for narrow in (False, True):
        for panels in sizes:
            parts = -(-spec.panels // panels)
            if so_far <= (UNFAIR if narrow else FAIR) or least_claim_rows(spec, parts) > 1:
                break  # shared out well enough, or in parts that are not worth a claim
            if (panels % chunk != 0) is not narrow:
                continue
            slower = [slowed(work, machine, panels) for machine in cores.machines]
            found = over_ideal(spec.rows * parts, 1, cores, slower)
            if found < GAIN * so_far:
                best, so_far = panels, found
    return best


def chunk_panels(work: Work, cores: Cores) -> int:
    """Panels that are whole chunks of register tiles on all machines."""
    chunks = [registers(work, machine, MacroTile(), work.layer.oc).channels for machine in cores.machines]
    return lcm(*(max(1, channels // work.panel) for channels in chunks))


def slowed(work: Work, machine: Machine, panels: int) -> float:
    """How many times as long so few panels at a time take: their register tiles may be narrower than a core's best."""
    spec = work.spec
    assert isinstance(spec, Convolution)

    def cycles(channels: int) -> float:
        if not isinstance(spec, Conv2d):
            return registers(work, machine, MacroTile(), channels).cycles / channels
        tiling, crossing = conv_tiling.register_tiling(spec, machine, MacroTile(), channels)
        return tiling.shared * (1 if crossing else spec.pixel_rows) / channels

    if not isinstance(spec, Conv2d) and work.by_channels:
        return 1.0  # 8-bit panels are computed one by one where they are work, as many as there may be
    return max(1.0, cycles(min(spec.out_channels, panels * spec.lanes)) / cycles(spec.out_channels))
