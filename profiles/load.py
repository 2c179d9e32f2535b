"""Load cores and boards by their names."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mavcg.errors import MavcgError
from mavcg.hardware.board import Board
from mavcg.hardware.core import Core
from mavcg.profiles import schema
from mavcg.profiles.board_files import read_board
from mavcg.profiles.core_files import read_core
from mavcg.profiles.folders import files
from mavcg.profiles.schema import refuse
from mavcg.text.safe_text import printable_line
from mavcg.toolchain.target import ARCHES, parse_target

# LLVM uses these only where a program has their intrinsics, and then every version has them.
ONLY_BY_INTRINSICS = ("aes", "sha2")
_ARCH_LINE = re.compile(r'^arch\s*=\s*"([^"]*)"', re.MULTILINE)


def load_cores(arch: str = "") -> dict[str, Core]:
    """Return every known core by name, in alphabetical order.

    arch: only cores of this architecture. Files that begin with another are not parsed, which saves most of the time.
    Raises: ProfileError for a file that does not follow docs/add-a-core.md.
    """
    loaded = {name: read_core(path) for name, path in files("cores").items() if not arch or _may_be_of(path, arch)}
    return {name: core for name, core in loaded.items() if arch in ("", core.arch)}


def _may_be_of(path: Path, arch: str) -> bool:
    """Return True unless the file states another architecture."""
    stated = _ARCH_LINE.search(schema.read_text(path))
    return stated is None or stated[1] == arch or stated[1] not in ARCHES


def load_boards() -> dict[str, Board]:
    """Return every known board by name, in alphabetical order.

    Raises: ProfileError for a file that does not follow docs/add-a-board.md.
    """
    return {name: read_board(path) for name, path in files("boards").items()}


def load_core(name: str) -> Core:
    """Return a core's profile by name.

    Raises: MavcgError for an unknown name, with similar names.
    """
    return read_core(_file("cores", name))


def load_board(name: str) -> Board:
    """Return a board's profile by name.

    Raises: MavcgError for an unknown name, with similar names; ProfileError for a core of another architecture.
    """
    path, cores = _file("boards", name), files("cores")
    board = read_board(path)
    arch = parse_target(board.target).arch
    for number, cluster in enumerate(board.clusters):
        core = read_core(cores[cluster.core]) if cluster.core in cores else None
        if core is not None and core.arch != arch:
            wrong = f"{core.name} is {core.arch}, but target is {board.target}"
            raise refuse(path, f"clusters[{number}].core", wrong, "correct one of them")
    return board


def cores_for(names: Sequence[str]) -> tuple[Core, ...]:
    """Return the cores of a build, in the order given, without extensions that sibling cores lack.

    Raises: MavcgError for no name, an unknown or repeated name, "generic" (always built), and several architectures.
    """
    given = ",".join(names)
    if not [name for name in names if name]:
        raise MavcgError("--cores: no core named; name some, such as --cores cortex-a55,cortex-a75, or a --board")
    if "generic" in names:
        raise MavcgError(f"--cores {given}: generic is not named: every library has its version; leave it out")
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise MavcgError(f"--cores {given}: {', '.join(doubled)} named twice; name each core once")
    cores = tuple(load_core(name) for name in names)
    if len({core.arch for core in cores}) > 1:
        kinds = ", ".join(f"{core.name} is {core.arch}" for core in cores)
        raise MavcgError(f"--cores {given}: a library has one architecture, but {kinds}; build one library for each")
    known, boards = load_cores(cores[0].arch), load_boards()
    return tuple(runnable_on_sibling_cores(core, known, boards.values()) for core in cores)


def _file(kind: str, name: str) -> Path:
    known = files(kind)
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name.lower().replace("_", "-"), known, n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(near)}? " if near else ""
    option = "--cores" if kind == "cores" else "--board"
    raise MavcgError(f"{option} {printable_line(name)}: no such {kind[:-1]}; {hint}`mavcg cores` lists them")


def runnable_on_sibling_cores(core: Core, cores: Mapping[str, Core], boards: Iterable[Board]) -> Core:
    """Return the core without the extensions that another core of one of its boards lacks.

    A dispatcher chooses once per call, and the scheduler moves threads at any time: on an Exynos 9810, a version for
    the A55 that uses an Armv8.1 atomic is an illegal instruction after a move to the Armv8.0 M3. Only known boards
    count; so far, all unequal pairs are on boards of one vendor (pytorch/cpuinfo #193).
    """
    siblings = {name for board in boards if core.name in board.cores for name in board.cores if name in cores}
    lacking = [
        extension
        for extension in core.extensions
        if extension not in ONLY_BY_INTRINSICS
        and any(extension not in cores[sibling].extensions for sibling in siblings)
    ]
    off = tuple(f"-{extension}" for extension in lacking)
    return replace(core, llvm_features=(*core.llvm_features, *off))
