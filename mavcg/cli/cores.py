"""`mavcg cores`: the cores and boards that are known, how each is recognised, and what this machine has."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mavcg.board import Board, Cluster
from mavcg.cli.output import console, print_json
from mavcg.core import Core, Midr, X86Model
from mavcg.cpu_list import cpu_ranges as cpu_ranges  # test_cores imports it from here
from mavcg.errors import MavcgError, ProfileError
from mavcg.target import ARCHES, host_target

if TYPE_CHECKING:
    from mavcg.runtime.binding import DetectedCpu


def cores(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME|check]", help="One core or board in full; `check` audits the facts instead."),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Audit the facts: same as `mavcg cores check`.")] = False,
    json: Annotated[bool, typer.Option("--json", help="The same as one JSON document on stdout.")] = False,
) -> None:
    """List cores and boards, how each is recognised, and what this machine has.

    Your own cores and boards are read from the folders named by MAVCG_PROFILES.

    \b
    mavcg cores
    mavcg cores cortex-a55
    mavcg cores exynos9820 --json
    mavcg cores check
    """
    if check or name == "check":
        _check(json)
        return
    from mavcg.profiles.load import load_boards, load_cores  # reading TOML: not for --help

    known, boards = load_cores(), load_boards()
    if name is not None:
        known, boards = _named(name, known, boards)
    found = this_machine(load_cores(), Path("/"))
    if name is not None:
        found = [cpu for cpu in found if cpu.core in known]
    if json:
        print_json(
            {
                "this_machine": [{"cpu": cpu.cpu, "core": cpu.core, "how": cpu.how} for cpu in found],
                "cores": [core_json(core) for core in known.values()],
                "boards": [board_json(board) for board in boards.values()],
            }
        )
    elif name is not None and name in known:
        _show_core(known[name], boards, found)
    elif name is not None:
        _show_board(boards[name])
    else:
        _show_all(known, boards, found)


def this_machine(known: Mapping[str, Core], root: Path) -> "list[DetectedCpu]":
    """Each CPU's core as the runtime in a library would find it; empty on an architecture without cores here.

    Raises: ToolError when the runtime cannot be compiled for this machine.
    """
    from mavcg.runtime.binding import detect

    arch = host_target().arch
    return detect(root, [core for core in known.values() if core.arch == arch], None) if arch in ARCHES else []


def core_json(core: Core) -> dict[str, Any]:
    """A core as `--json` gives it."""
    return {
        "name": core.name,
        "arch": core.arch,
        "description": core.description,
        "order": core.order,
        "recognised": recognised(core),
        "midr": [
            {"implementer": m.implementer, "part": m.part, "variant_min": m.variant_min, "variant_max": m.variant_max}
            for m in core.midr
        ],
        "x86_kind": core.x86_kind,
        "x86_models": [{"vendor": m.vendor, "family": m.family, "models": list(m.models)} for m in core.x86_models],
        "llvm_cpu": core.llvm_cpu,
        "llvm_tune": core.llvm_tune,
        "llvm_features": list(core.llvm_features),
        "extensions": list(core.extensions),
        "stand_ins": list(core.stand_ins),
        "note": core.note,
        "policy": {
            "split": core.policy.split,
            "unpair": core.policy.unpair,
            "schedule": core.policy.schedule,
            "sources": dict(core.policy.sources),
        },
        "facts": [{"key": f.key, "value": f.value, "unit": f.unit, "source": f.source} for f in core.facts],
        "sources": dict(core.sources),
    }


def board_json(board: Board) -> dict[str, Any]:
    """A board as `--json` gives it; what no source gave is null."""
    return {
        "name": board.name,
        "soc": board.soc,
        "target": board.target,
        "clusters": [
            {
                "core": cluster.core,
                "cpus": list(cluster.cpus),
                "max_khz": cluster.max_khz,
                "l1d_bytes": cluster.l1d_bytes,
                "l2_bytes": cluster.l2_bytes,
                "l2_cores": cluster.l2_cores,
            }
            for cluster in board.clusters
        ],
        "l3_bytes": board.l3_bytes,
        "sources": dict(board.sources),
    }


def recognised(core: Core) -> str:
    """How a CPU is known to be this core, in a few words."""
    words = [_midr_text(midr) for midr in core.midr] + [_model_text(model) for model in core.x86_models]
    kind = f"{core.x86_kind} CPUs of " if core.x86_kind else ""
    return kind + ", ".join(words)


def _named(name: str, known: dict[str, Core], boards: dict[str, Board]) -> tuple[dict[str, Core], dict[str, Board]]:
    """The core of this name and the boards that have it, or the board and its cores."""
    if name in known:
        return {name: known[name]}, {key: board for key, board in boards.items() if name in board.cores}
    if name in boards:
        missing = [core for core in boards[name].cores if core not in known]
        if missing:
            raise ProfileError(f"boards/{name}.toml: clusters: {missing[0]} is no core; see `mavcg cores check`")
        return {core: known[core] for core in boards[name].cores}, {name: boards[name]}
    import difflib

    near = difflib.get_close_matches(name, [*known, *boards], n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(near)}? " if near else ""
    raise MavcgError(f"mavcg cores {name}: no core and no board has this name; {hint}`mavcg cores` lists them")


def _check(json: bool) -> None:
    """Print what the audit finds.

    Raises: ProfileError when it finds something.
    """
    from mavcg.profiles.audit import audit
    from mavcg.profiles.load import files

    faults = audit()
    counts = {kind: len(files(kind)) for kind in ("cores", "boards")}
    if json:
        print_json({**counts, "faults": list(faults), **({} if faults else _gaps())})
    else:
        for fault in faults:
            print(fault)
    if faults:
        raise ProfileError(f"mavcg cores check: faults in the facts: {len(faults)}; mend the files named above")
    if not json:
        print(f"{counts['cores']} cores and {counts['boards']} boards: every fact has a source, every name is known.")
        gaps = _gaps()
        for name, classes in gaps["lacking"].items():
            print(f"{name} lacks the timing of {len(classes)} instruction classes: {', '.join(classes)}")
        if gaps["without_timing"]:
            print(f"Without instruction timing: {', '.join(gaps['without_timing'])}")


def _gaps() -> dict[str, Any]:
    """What is not known of the cores: instruction classes by core, and the cores of which no timing is known."""
    from mavcg.profiles.audit import lacking
    from mavcg.profiles.load import load_cores

    known = load_cores()
    found = lacking(known)
    return {
        "lacking": {name: list(classes) for name, classes in found.items() if classes},
        "without_timing": [name for name in known if name not in found],
    }


def _show_all(known: Mapping[str, Core], boards: Mapping[str, Board], found: "Sequence[DetectedCpu]") -> None:
    from rich.table import Table

    out = console()
    table = Table("core", "what it is", "recognised by", "LLVM CPU", "order", title="Cores (generic is always there)")
    for core in known.values():
        table.add_row(core.name, core.description, recognised(core), _llvm_text(core), core.order)
    out.print(table)
    table = Table("board", "processor", "clusters", title="Boards")
    for board in boards.values():
        table.add_row(board.name, board.soc, "\n".join(_cluster_text(cluster) for cluster in board.clusters))
    out.print(table)
    _show_machine(found)


def _show_core(core: Core, boards: Mapping[str, Board], found: "Sequence[DetectedCpu]") -> None:
    from rich.table import Table

    out = console()
    rows = [
        ("is", core.description), ("arch", core.arch), ("order", "in order" if core.order == "in" else "out of order"),
        ("recognised by", recognised(core)), ("LLVM CPU", _llvm_text(core)), ("stand-ins", ", ".join(core.stand_ins)),
        ("extensions", ", ".join(core.extensions)),
        ("boards", ", ".join(boards)), ("note", " ".join(core.note.split())),
        ("machine passes", _asked(core)), ("timing", _timing_text(core)),
        *((fact.key, f"{fact.value} {fact.unit}") for fact in core.facts),
    ]  # fmt: skip
    table = Table("fact", "value", title=core.name)
    for key, value in rows:
        if value:
            table.add_row(key, value)
    out.print(table)
    table = Table("fact", "source", title="Sources")
    policy = ((f"loads.{name}", source) for name, source in core.policy.sources)
    for key, source in (*core.sources, *policy, *((fact.key, fact.source) for fact in core.facts)):
        table.add_row(key, source)
    out.print(table)
    if found:
        _show_machine(found)


def _asked(core: Core) -> str:
    policy = core.policy
    asked = {"split": policy.split, "unpair": policy.unpair, "schedule": policy.schedule}
    return ", ".join(name for name, wanted in asked.items() if wanted)


def _timing_text(core: Core) -> str:
    """How much is known of the core's timing, and whose it is."""
    from mavcg.profiles.timing import load_timing, own_classes

    own = own_classes(core)
    if own is None:
        return ""
    timing = load_timing(core)
    taken = len(timing.classes) - len(own)
    return f"{len(timing.classes)} rows of instruction classes" + (f", {taken} of another core" if taken else "")


def _show_board(board: Board) -> None:
    from rich.table import Table

    out = console()
    table = Table("CPUs", "core", "clock", "L1 data", "L2", title=f"{board.name}: {board.soc}")
    for cluster in board.clusters:
        clock = f"{cluster.max_khz / 1e6:.2f} GHz" if cluster.max_khz else ""
        shared = f" for {cluster.l2_cores} cores" if cluster.l2_cores and cluster.l2_cores > 1 else ""
        l2 = _kib(cluster.l2_bytes) + shared
        table.add_row(cpu_ranges(cluster.cpus), cluster.core, clock, _kib(cluster.l1d_bytes), l2)
    out.print(table)
    out.print(f"Built for {board.target}." + (f" L3: {_kib(board.l3_bytes)}." if board.l3_bytes else ""))
    table = Table("fact", "source", title="Sources")
    for key, source in board.sources:
        table.add_row(key, source)
    out.print(table)


def _show_machine(found: "Sequence[DetectedCpu]") -> None:
    from rich.table import Table

    groups: dict[tuple[str | None, str], list[int]] = {}
    for cpu in found:
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


def _kib(size: int | None) -> str:
    """A size for people; nothing where no source gave it."""
    return "" if size is None else f"{size // 1024} KiB"


def _llvm_text(core: Core) -> str:
    tune = f" tuned as {core.llvm_tune}" if core.llvm_tune else ""
    return core.llvm_cpu + tune + "".join(f" {feature}" for feature in core.llvm_features)


def _cluster_text(cluster: Cluster) -> str:
    clock = f" at {cluster.max_khz / 1e6:.2f} GHz" if cluster.max_khz else ""
    return f"{cpu_ranges(cluster.cpus)}: {cluster.core}{clock}"
