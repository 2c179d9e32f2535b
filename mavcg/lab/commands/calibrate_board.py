"""`mavcg calibrate` on a machine that a runner reaches: each core type is measured, and files are written."""

import os
import re
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from mavcg.console.output import Progress, note, print_json
from mavcg.errors import MavcgError
from mavcg.lab.commands.calibrate_options import CalibrateOptions
from mavcg.lab.commands.calibrate_table import show_facts

if TYPE_CHECKING:
    from mavcg.lab.calibrate.calibration import CoreCalibration
    from mavcg.lab.runners.facts import MachineFacts
    from mavcg.lab.runners.shell_runner import ShellRunner

_PROFILES = "MAVCG_PROFILES"
_TARGET = "aarch64-linux-gnu.2.17"


def calibrate_board(options: CalibrateOptions) -> None:
    """Measure the core types of a machine, write files of them and of the board. Raises: MavcgError."""
    from mavcg.lab.runners.open import open_runner

    folder = _profiles_folder()
    with open_runner(options.runner) as runner:
        facts = runner.facts()
        if facts.arch != "aarch64":
            raise MavcgError(
                f"--runner {options.runner}: is {facts.arch}, and the loops are AArch64's; give ssh:user@host or adb "
                "for a board, or simulate:CORE"
            )
        names = _cores_of(options, facts, runner.name)
        board = options.name or _board_name(facts, runner.name)
        paths = {name: folder / "cores" / f"{name}.toml" for name in names} | {"": folder / "boards" / f"{board}.toml"}
        taken = [path for path in paths.values() if path.exists()]
        if taken and not options.replace:
            raise MavcgError(f"{taken[0]}: is there already; give --replace to replace it, or another --name")
        start = time.monotonic()
        found = {}
        for number, name in enumerate(names):
            until = 60 * options.minutes * (number + 1) / len(names)
            found[name] = _measure(runner, facts, name, start, until)
    texts = _file_texts(board, facts, runner.name, found)
    document = _write(texts, paths, options, found, board)
    if options.as_json:
        print_json(document)
        return
    for name, calibration in found.items():
        show_facts(f"{name} of {board}", "mavcg's", calibration.shipped, calibration.found)
        if calibration.unfinished:
            note(f"{name}: no time for {', '.join(calibration.unfinished)}; give more --minutes")
        for pair in calibration.pairs:
            if pair.differs:
                note(f"{name}: {pair.one} and {pair.two} take {pair.measured:g} cycles, {pair.modelled:g} by the facts")
    for path in document["files"]:
        note(f"wrote {path}")
    cores = " ".join(f"--core {name}" for name in names)
    note(f"from mavcg's sources, `python -m bench.silicon {cores}` compares published figures, with and without them")


def _profiles_folder() -> Path:
    """Return the folder that files are written to, with its folders for them.

    Raises: MavcgError without MAVCG_PROFILES, and if they cannot be made.
    """
    folders = [part for part in os.environ.get(_PROFILES, "").split(os.pathsep) if part]
    if not folders:
        raise MavcgError(f"{_PROFILES}: is not set; name the folder for the files: export {_PROFILES}=~/silicon")
    folder = Path(folders[0]).expanduser()
    try:
        for kind in ("cores", "boards"):
            (folder / kind).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MavcgError(f"{_PROFILES}: {folder}: cannot be made ({error.strerror}); name another folder") from None
    return folder


def _cores_of(options: CalibrateOptions, facts: "MachineFacts", name: str) -> tuple[str, ...]:
    """Return the core types to measure. Raises: MavcgError for one that the machine has not, and for none."""
    requested = tuple(dict.fromkeys(options.core or facts.cores))
    unknown = [core for core in requested if core not in facts.cores]
    has = ", ".join(facts.cores) or "none that is known"
    if unknown:
        raise MavcgError(f"--core {unknown[0]}: {name} has no such core; it has {has}: name one of them")
    if not requested:
        raise MavcgError(f"{name}: has no core that mavcg knows; add a file for it first (docs/add-a-core.md)")
    return requested


def _board_name(facts: "MachineFacts", runner: str) -> str:
    """Return a name for the board's file: the machine's own in small letters, or the runner's."""
    words = re.findall(r"[a-z0-9]+", (facts.model or runner).lower())
    return "-".join(["measured", *words])[:60].rstrip("-")


def _measure(runner: "ShellRunner", facts: "MachineFacts", name: str, start: float, until: float) -> "CoreCalibration":
    """Find the facts of one core type. start: by the monotonic clock; until: seconds after it."""
    from mavcg.files.scratch import scratch_folder
    from mavcg.lab.calibrate.board import BoardTimer
    from mavcg.lab.calibrate.calibration import all_loops, calibrate, with_own_rows
    from mavcg.profiles.core_timing import core_timing

    core, timing = core_timing(name)
    cpus = [cpu.cpu for cpu in facts.cpus if cpu.core == name and cpu.online and cpu.allowed]
    if not cpus:
        raise MavcgError(f"{runner.name}: no {name} is switched on and allowed to programs; see `mavcg tune --check`")
    with scratch_folder("mavcg-calibrate-") as folder, Progress() as progress:
        loops = all_loops(core, with_own_rows(timing))
        timer = BoardTimer(runner, Path(folder), max(cpus), loops, until, lambda: time.monotonic() - start)
        found = calibrate(timer, core, timing, progress=lambda what: progress(f"{name}: {what}"))
        return replace(found, ghz=median(timer.ghz))


def _file_texts(board: str, facts: "MachineFacts", runner: str, found: "dict[str, CoreCalibration]") -> dict[str, str]:
    """Return the text of each core's file by its name, and of the board's by ""."""
    from mavcg.hardware.cpu_list import cpu_ranges
    from mavcg.lab.calibrate.core_file import board_file_text, cluster_table, core_file_text
    from mavcg.profiles.folders import files
    from mavcg.profiles.load import load_core
    from mavcg.profiles.schema import read_toml
    from mavcg.profiles.timing import load_timing

    source = f"measured: mavcg calibrate on {facts.model or runner}, {time.strftime('%Y-%m-%d')}"
    texts, clusters = {}, []
    for name, calibration in found.items():
        timing = load_timing(load_core(name))
        texts[name] = core_file_text(read_toml(files("cores")[name]), calibration, timing, source)
        own = [cpu for cpu in facts.cpus if cpu.core == name]
        khz = max((cpu.most_khz for cpu in own if cpu.most_khz), default=round((calibration.ghz or 0) * 1e6))
        levels = {key: value for key, value in calibration.found.items() if key.startswith("caches.")}
        clusters.append(cluster_table(calibration, cpu_ranges([cpu.cpu for cpu in own]), khz, levels, source))
    l3 = max((int(c.found["caches.l3_bytes"]) for c in found.values() if "caches.l3_bytes" in c.found), default=None)
    texts[""] = board_file_text(board, facts.model or runner, _TARGET, source, clusters, l3)
    return texts


def _write(
    texts: dict[str, str],
    paths: dict[str, Path],
    options: CalibrateOptions,
    found: "dict[str, CoreCalibration]",
    board: str,
) -> dict[str, Any]:
    """Write the files and return the document of --json. Raises: MavcgError if a file cannot be written."""
    from mavcg.files.whole_file import write_whole
    from mavcg.lab.calibrate.core_file import changed_facts

    for name, path in paths.items():
        write_whole(path, texts[name])
    cores = [
        {
            "core": name,
            "ghz": calibration.ghz,
            "found": dict(calibration.found),
            "shipped": {key: calibration.shipped.get(key) for key in calibration.found},
            "changed": changed_facts(calibration),
            "unfinished": list(calibration.unfinished),
            "pairs": [vars(pair) for pair in calibration.pairs],
        }
        for name, calibration in found.items()
    ]
    return {"runner": options.runner, "board": board, "cores": cores, "files": [str(path) for path in paths.values()]}
