"""Print the tables of `mavcg cores`."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING

from mavcg.console.output import console
from mavcg.hardware.board import Board, Cluster
from mavcg.hardware.core import INSTRUCTIONS, Core, Midr, X86Model
from mavcg.hardware.cpu_list import cpu_ranges

if TYPE_CHECKING:
    from mavcg.runtime.binding import DetectedCpu


def recognition_text(core: Core) -> str:
    """Describe how a CPU is recognised as this core, in a few words."""
    words = [_midr_text(midr) for midr in core.midr] + [_model_text(model) for model in core.x86_models]
    kind = f"{core.x86_kind} CPUs of " if core.x86_kind else ""
    return kind + ", ".join(words)


def show_all(known: Mapping[str, Core], boards: Mapping[str, Board], detected: "Sequence[DetectedCpu]") -> None:
    """Print tables with a row for each core and board, and this machine's cores."""
    from rich.table import Table
    from rich.text import Text

    out = console()
    head = ("core", "what it is", "recognised by", "LLVM CPU", "order", "timing, error on silicon")
    table = Table(*head, title="Cores (every library also has a version for generic, any other core)")
    for core in known.values():
        row = (
            core.name,
            core.description,
            recognition_text(core),
            _llvm_text(core),
            core.order,
            _confidence_text(core),
        )
        table.add_row(*row)
    out.print(table)
    table = Table("board", "processor", "clusters", title="Boards")
    for board in boards.values():
        table.add_row(board.name, board.soc, Text("\n".join(_cluster_text(cluster) for cluster in board.clusters)))
    out.print(table)
    show_machine(detected)


def _assumed_texts(core: Core) -> list[tuple[str, str]]:
    """Return key and text of each fact that the simulator assumes because the core's file lacks it."""
    from mavcg.cost.core_facts import ASSUMED, simulator_facts

    if core.arch != "aarch64":
        return []
    return [(f.key, f"{f.value:g} {f.unit}, assumed") for f in simulator_facts(core) if f.grade == ASSUMED]


def show_core(core: Core, boards: Mapping[str, Board], detected: "Sequence[DetectedCpu]") -> None:
    """Print all facts of a core with their sources, and the boards that have it."""
    from rich.table import Table

    out = console()
    rows = [
        ("description", core.description),
        ("arch", core.arch),
        ("order", "in order" if core.order == "in" else "out of order"),
        ("recognised by", recognition_text(core)),
        ("LLVM CPU", _llvm_text(core)),
        ("stand-ins", ", ".join(core.stand_ins)),
        ("extensions", ", ".join(core.extensions)),
        ("boards", ", ".join(boards)),
        ("note", " ".join(core.note.split())),
        ("machine passes", _pass_names(core)),
        ("timing", _timing_text(core)),
        ("confidence", core.confidence or ""),
        ("error on silicon", _silicon_text(core)),
        *((fact.key, f"{fact.value} {fact.unit}") for fact in core.facts),
        *_assumed_texts(core),
    ]
    table = Table("fact", "value", title=core.name)
    for key, value in rows:
        if value:
            table.add_row(key, value)
    out.print(table)
    show_blocking(core)
    table = Table("fact", "source", title="Sources")
    policy = ((f"loads.{name}", source) for name, source in core.policy.sources)
    for key, source in (*core.sources, *policy, *((fact.key, fact.source) for fact in core.facts)):
        table.add_row(key, source)
    out.print(table)
    if detected:
        show_machine(detected)


def show_blocking(core: Core) -> None:
    """Print the sizes by which products of matrices are blocked on a core, and the caches that they are for."""
    from rich.table import Table

    from mavcg.choose.tiles.core_blocking import LIBRARY_TITLES, core_blocking, model_of_core

    model = model_of_core(core)
    if model is None:
        return
    caches = ", ".join(f"{level.name} {_kib(level.shared_bytes)}" for level in model.levels)
    title = f"Blocking of matrix products on this core alone, in elements, for {caches}"
    assumed = [fact.key for fact in model.missing if fact.key in ("l1d_bytes", "l2_bytes", "l3_bytes")]
    note = (
        f"{', '.join(assumed)}: as typical {model.fit.kind} cores have; a board's file has its own" if assumed else None
    )
    table = Table("library", "type", "MR", "NR", "MC", "KC", "NC", title=title, caption=note)
    for kind, planned in core_blocking(model).items():
        for dtype, sizes in planned.items():
            table.add_row(LIBRARY_TITLES[kind], dtype, *(str(size) for size in astuple(sizes)))
    console().print(table)


def _pass_names(core: Core) -> str:
    policy = core.policy
    passes = {"split": policy.split, "unpair": policy.unpair, "schedule": policy.schedule}
    passes |= {"split_in_ir": policy.split_in_ir}
    return ", ".join(name for name, is_on in passes.items() if is_on)


def _confidence_text(core: Core) -> str:
    """Return the confidence in a core's timing and its mean error on silicon, as far as they are known."""
    error = f"{core.model_error:.0%}" if core.model_error is not None else ""
    return ", ".join(filter(None, (core.confidence, error)))


def _silicon_text(core: Core) -> str:
    """Describe the mean error of the core's model against published figures."""
    errors = core.silicon
    if errors is None:
        return "not known: no published figure is compared" if core.confidence else ""
    held_out = (
        f"; {errors.held_out_error:.1%} of the {errors.held_out_figures} held out" if errors.held_out_figures else ""
    )
    kinds = INSTRUCTIONS if list(errors.kinds) == [INSTRUCTIONS] else "calls, loops and changes"
    blind = ""
    if errors.blind_error is not None:
        blind = (
            f"{errors.blind_error:.1%} in the mean of {errors.blind_figures} of projects that no fact was fitted to; "
        )
    return f"{blind}{errors.mean_abs_error:.1%} in the mean of {errors.figures} published figures of {kinds}{held_out}"


def _timing_text(core: Core) -> str:
    """Describe how many instruction classes have timing facts, and how many of these are those of another core."""
    from mavcg.profiles.timing import load_timing, own_classes

    own = own_classes(core)
    if own is None:
        return ""
    timing = load_timing(core)
    inherited = len(timing.classes) - len(own)
    suffix = f", {inherited} of another core" if inherited else ""
    return f"{len(timing.classes)} rows of instruction classes{suffix}"


def show_board(board: Board) -> None:
    """Print all facts of a board with their sources."""
    from rich.table import Table

    out = console()
    rates = "GB/s for one core: L2, L3, memory"
    table = Table("CPUs", "core", "clock", "L1 data", "L2", rates, title=f"{board.name}: {board.soc}")
    for cluster in board.clusters:
        clock = f"{cluster.max_khz / 1e6:.2f} GHz" if cluster.max_khz else ""
        shared = f" for {cluster.l2_cores} cores" if cluster.l2_cores and cluster.l2_cores > 1 else ""
        l2 = "none" if cluster.l2_bytes == 0 else _kib(cluster.l2_bytes) + shared
        gb_per_s = (cluster.l2_gb_per_s, cluster.l3_gb_per_s, cluster.memory_gb_per_s)
        table.add_row(cpu_ranges(cluster.cpus), cluster.core, clock, _kib(cluster.l1d_bytes), l2, _rates(gb_per_s))
    out.print(table)
    l3 = f" L3: {_kib(board.l3_bytes)}." if board.l3_bytes else ""
    memory = f" Memory, all cores together: {board.memory_gb_per_s:g} GB/s." if board.memory_gb_per_s else ""
    out.print(f"Built for {board.target}.{l3}{memory}")
    if board.sources:
        table = Table("fact", "source", title="Sources")
        for key, source in board.sources:
            table.add_row(key, source)
        out.print(table)


def show_machine(detected: "Sequence[DetectedCpu]") -> None:
    """Print the cores of this machine's CPUs, and how each was recognised."""
    from rich.table import Table

    groups: dict[tuple[str | None, str], list[int]] = {}
    for cpu in detected:
        groups.setdefault((cpu.core, cpu.how), []).append(cpu.cpu)
    table = Table("CPUs", "core", "how it is known", title="This machine")
    for (core, how), cpus in groups.items():
        table.add_row(cpu_ranges(cpus), core or "generic", how)
    console().print(table)


def _midr_text(midr: Midr) -> str:
    low, high = midr.variant_min, midr.variant_max
    variants = f" r{low}" if low == high else f" r{low}+" if high == 15 else f" r{low}-r{high}"
    if (low, high) == (0, 15):
        variants = ""
    return f"{midr.implementer:#04x}/{midr.part:#05x}{variants}"


def _model_text(model: X86Model) -> str:
    ranges = ",".join(
        "-".join(f"{int(end):#04x}" for end in part.split("-")) for part in cpu_ranges(model.models).split(",")
    )
    return f"{model.vendor} family {model.family:#04x} model {ranges}"


def _rates(gb_per_s: Sequence[float | None]) -> str:
    """Format rates, with ? for an unknown one; "" if all are unknown."""
    return ", ".join("?" if rate is None else f"{rate:g}" for rate in gb_per_s) if any(gb_per_s) else ""


def _kib(size: int | None) -> str:
    """Format a size in KiB; "" if it is unknown."""
    return "" if size is None else f"{size // 1024} KiB"


def _llvm_text(core: Core) -> str:
    tune = f" tuned as {core.llvm_tune}" if core.llvm_tune else ""
    return core.llvm_cpu + tune + "".join(f" {feature}" for feature in core.llvm_features)


def _cluster_text(cluster: Cluster) -> str:
    clock = f" at {cluster.max_khz / 1e6:.2f} GHz" if cluster.max_khz else ""
    return f"{cpu_ranges(cluster.cpus)}: {cluster.core}{clock}"
