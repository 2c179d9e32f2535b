"""The verb `mavcg cores`: list the known cores and boards, how each is recognised, and the cores of this machine."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mavcg.cli.cores_tables import recognition_text, show_all, show_board, show_core
from mavcg.console.output import console, print_json
from mavcg.console.shared_options import JsonDocument
from mavcg.errors import MavcgError, ProfileError
from mavcg.hardware.board import Board
from mavcg.hardware.core import Core
from mavcg.text.terminal import show_line
from mavcg.toolchain.target import ARCHES, host_target

KEYS_OF_ONE = ("confidence", "silicon", "blocking", "model")  # of the document, if one core is named

if TYPE_CHECKING:
    from mavcg.runtime.binding import DetectedCpu


def cores(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME|host|check]",
            help="A core or board to show in full; host: this machine, with measured figures; check: audit the facts.",
        ),
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="With host: measure again, for example if the machine was busy before.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Audit the facts, as `mavcg cores check` does.")] = False,
    json: JsonDocument = False,
) -> None:
    """List the known cores and boards, how each is recognised, and the cores of this machine.

    Your own cores and boards are read from the folders named by MAVCG_PROFILES.

    \b
    mavcg cores
    mavcg cores cortex-a55
    mavcg cores exynos9820 --json
    mavcg cores host --measure
    mavcg cores check
    """
    if measure and name != "host":
        raise MavcgError("mavcg cores: --measure measures this machine; give `mavcg cores host --measure`")
    if check or name == "check":
        _check(json)
        return
    if name == "host":
        _show_host(measure, json)
        return
    from mavcg.profiles.load import load_boards, load_cores  # reading TOML: not for --help

    known, boards = load_cores(), load_boards()
    if name is not None:
        known, boards = _cores_and_boards(name, known, boards)
    detected = this_machine(load_cores(), Path("/"))
    if name is not None:
        detected = [cpu for cpu in detected if cpu.core in known]
    if json:
        # The model is made and its blocking planned, not read: for the cores that are asked for by name only.
        entries = [core_json(core) | (model_json(core) if name else {}) for core in known.values()]
        print_json(
            {
                "this_machine": [{"cpu": cpu.cpu, "core": cpu.core, "how": cpu.how} for cpu in detected],
                "cores": entries,
                "boards": [board_json(board) for board in boards.values()],
                # If one core is named, scripts find these keys here too, without a search for its entry.
                **({key: entries[0][key] for key in KEYS_OF_ONE} if name in known else {}),
            }
        )
    elif name is not None and name in known:
        show_core(known[name], boards, detected)
    elif name is not None:
        show_board(boards[name])
    else:
        show_all(known, boards, detected)


def _show_host(again: bool, json: bool) -> None:
    """Print the figures of this machine that plans and builds use, and what it has to confine commands.

    again: measure, instead of the kept figures.
    """
    from mavcg.files.landlock import landlock_version
    from mavcg.files.syscall_filter import knows_filters
    from mavcg.hosts.host import measured_host_board

    board, landlock, filters = measured_host_board(again=again), landlock_version(), knows_filters()
    if json:
        print_json({"boards": [board_json(board)], "sandbox": {"landlock": landlock, "system_calls": filters}})
        return
    show_board(board)
    parts = f"Landlock {landlock}" if landlock else "no Landlock", f"{'' if filters else 'no '}filters of system calls"
    console().print(f"sandbox: {', '.join(parts)} (docs/security.md)")


def this_machine(known: Mapping[str, Core], root: Path) -> "list[DetectedCpu]":
    """Return the core of each CPU as the selector in a library detects it; [] on an architecture without profiles.

    Args:
        known: cores by name.
        root: folder that stands for /, where /proc and /sys are.
    Raises: ToolError if the selector cannot be compiled for this machine.
    """
    from mavcg.runtime.binding import detect

    arch = host_target().arch
    return detect(root, [core for core in known.values() if core.arch == arch], None) if arch in ARCHES else []


def core_json(core: Core) -> dict[str, Any]:
    """Return a core's entry in the document of --json."""
    from mavcg.cost.core_facts import simulator_facts

    return {
        "name": core.name,
        "arch": core.arch,
        "description": core.description,
        "order": core.order,
        "recognised": recognition_text(core),
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
            "split_in_ir": core.policy.split_in_ir,
            "sources": dict(core.policy.sources),
        },
        "confidence": core.confidence,
        "silicon": None if core.silicon is None else asdict(core.silicon),
        "simulator": [asdict(fact) for fact in simulator_facts(core)] if core.arch == "aarch64" else [],
        "facts": [{"key": f.key, "value": f.value, "unit": f.unit, "source": f.source} for f in core.facts],
        "sources": dict(core.sources),
    }


def model_json(core: Core) -> dict[str, Any]:
    """Return the keys of a core's entry for what builds make of it: its model, and the blocking of products.

    Both are null and {} if no library with kernels can be built for the core.
    """
    from mavcg.choose.tiles.core_blocking import core_blocking, model_of_core

    model = model_of_core(core)
    if model is None:
        return {"model": None, "blocking": {}}
    return {
        "model": {
            "kind": model.fit.kind,
            "ghz": model.ghz,
            "macs_per_cycle": model.macs_per_cycle,
            "vector_bytes": model.machine.vector_bytes,
            "levels": [
                {"name": level.name, "bytes": level.shared_bytes, "gb_per_s": level.bandwidth_gb_per_s}
                for level in model.levels
            ],
            "rates": asdict(model.rates),
            "assumed": {fact.key: fact.value for fact in model.missing},
        },
        "blocking": {
            kind: {dtype: asdict(sizes) for dtype, sizes in planned.items()}
            for kind, planned in core_blocking(model).items()
        },
    }


def board_json(board: Board) -> dict[str, Any]:
    """Return a board's entry in the document of --json; unknown facts are null."""
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
                "l3_bytes": cluster.l3_bytes,
                "l2_gb_per_s": cluster.l2_gb_per_s,
                "l3_gb_per_s": cluster.l3_gb_per_s,
                "memory_gb_per_s": cluster.memory_gb_per_s,
            }
            for cluster in board.clusters
        ],
        "l3_bytes": board.l3_bytes,
        "memory_gb_per_s": board.memory_gb_per_s,
        "sources": dict(board.sources),
    }


def _cores_and_boards(
    name: str, known: dict[str, Core], boards: dict[str, Board]
) -> tuple[dict[str, Core], dict[str, Board]]:
    """Return the core of this name and the boards that have it, or the board of this name and its cores."""
    if name in known:
        return {name: known[name]}, {key: board for key, board in boards.items() if name in board.cores}
    if name in boards:
        missing = [core for core in boards[name].cores if core not in known]
        if missing:
            raise ProfileError(
                f"boards/{name}.toml: clusters: {missing[0]} is not a known core; run `mavcg cores check`"
            )
        return {core: known[core] for core in boards[name].cores}, {name: boards[name]}
    import difflib

    near = difflib.get_close_matches(name, [*known, *boards], n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(near)}? " if near else ""
    raise MavcgError(f"mavcg cores {name}: no core and no board has this name; {hint}`mavcg cores` lists them")


def _check(json: bool) -> None:
    """Print the faults that the audit of the facts finds. Raises: ProfileError if there are any."""
    from mavcg.profiles.audit import audit
    from mavcg.profiles.folders import files

    faults = audit()
    counts = {kind: len(files(kind)) for kind in ("cores", "boards")}
    if json:
        print_json({**counts, "faults": list(faults), **({} if faults else _gaps())})
    else:
        for fault in faults:
            show_line(fault)
    if faults:
        raise ProfileError(f"mavcg cores check: faults in the facts: {len(faults)}; correct the files named above")
    if not json:
        show_line(
            f"{counts['cores']} cores and {counts['boards']} boards: every fact has a source, every name is known."
        )
        gaps = _gaps()
        for name, classes in gaps["lacking"].items():
            show_line(f"{name} lacks the timing of {len(classes)} instruction classes: {', '.join(classes)}")
        if gaps["without_timing"]:
            show_line(f"Without instruction timing: {', '.join(gaps['without_timing'])}")


def _gaps() -> dict[str, Any]:
    """Return the unknown facts: instruction classes without timing, by core, and the cores without any timing."""
    from mavcg.profiles.audit import lacking
    from mavcg.profiles.load import load_cores

    known = load_cores()
    missing_classes = lacking(known)
    return {
        "lacking": {name: list(classes) for name, classes in missing_classes.items() if classes},
        "without_timing": [name for name in known if name not in missing_classes],
    }
