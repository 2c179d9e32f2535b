"""The request for a BLAS library: options of `mavcg blas build` with names resolved, bad values refused by name."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from mavcg.assembly.tuning_options import FAST, Tuning, parse_tuning
from mavcg.errors import MavcgError
from mavcg.hardware.board import HOST, Board
from mavcg.hardware.core import Core
from mavcg.hardware.feature_levels import MODELLED_LEVELS, parse_levels
from mavcg.hosts.host import find_board, measured_host_board
from mavcg.objects.elf import open_elf
from mavcg.profiles.load import cores_for
from mavcg.toolchain.codegen import default_workers
from mavcg.toolchain.target import Target, default_target, host_target, parse_target

_MACHINES = {"aarch64": "EM_AARCH64", "x86_64": "EM_X86_64"}


@dataclass(frozen=True)
class BlasRequest:
    """Everything that a BLAS library depends on.

    board: for whose caches the blocks are planned. ilp64: integers are 64-bit in routines whose names have no suffix.
    soname: None for the file's name. next_library: library of the other routines, loaded together with this one.
    levels: of LEVELS, the feature levels of cores that get versions (kernel_levels.py). tuning: machine passes.
    """

    output: Path
    target: Target
    cores: tuple[Core, ...]
    board: Board | None = None
    ilp64: bool = False
    soname: str | None = None
    next_library: Path | None = None
    strip: bool = False
    workers: int = field(default_factory=default_workers)
    levels: str = MODELLED_LEVELS
    tuning: Tuning = FAST


@dataclass(frozen=True)
class BlasOptions:
    """Options of a BLAS build as a user gives them; None if not given."""

    board: str | None = None
    cores: str | None = None
    target: str | None = None
    ilp64: bool = False
    soname: str | None = None
    strip: bool = False
    jobs: int | None = None
    versions: str | None = None
    tune: str | None = None


def make_blas_request(output: Path, options: BlasOptions, next_library: Path | None = None) -> BlasRequest:
    """Return the request of a build. Raises: MavcgError naming the option, its value and the remedy."""
    board_facts = find_board(options.board) if options.board else None
    if board_facts is None and not options.cores:
        raise MavcgError(
            "blas build: no cores are named; give --board NAME, --board host or --cores A,B,.. (`mavcg cores` lists "
            "both)"
        )
    given = options.cores.split(",") if options.cores else list(board_facts.cores) if board_facts else []
    core_names = [name for name in given if name != "generic"]
    chosen = cores_for(list(dict.fromkeys(core_names))) if core_names else ()
    if options.target:
        library_target = parse_target(options.target)
    elif board_facts is not None:
        library_target = parse_target(board_facts.target)
    else:
        library_target = default_target(chosen[0].arch) if chosen else host_target()
    for core in chosen:
        if core.arch != library_target.arch:
            raise MavcgError(
                f"--cores {core.name}: is {core.arch}, and the target {library_target.zig_name} is not; name cores "
                "of one "
                "architecture, or another --target"
            )
    if library_target.system not in ("linux-gnu", "linux-musl"):
        raise MavcgError(
            f"--target {library_target.zig_name}: a BLAS is built for Linux with glibc or musl; use "
            f"{library_target.arch}-linux-gnu or {library_target.arch}-linux-musl"
        )
    if output.suffix != ".so" and ".so." not in output.name:
        raise MavcgError(f"-o {output}: a BLAS is a shared library; name one, such as -o libmavcg_blas.so")
    _check_output(output)
    if next_library is not None:
        _check_next(next_library, library_target, is_host=options.board == HOST)
    soname = options.soname or (next_library.name if next_library is not None else None)
    if options.board == HOST:
        board_facts = measured_host_board()
    return BlasRequest(
        output,
        library_target,
        chosen,
        board_facts,
        options.ilp64,
        soname,
        next_library,
        options.strip,
        options.jobs or default_workers(),
        parse_levels(options.versions),
        parse_tuning(options.tune),
    )


def _check_output(path: Path) -> None:
    """Raise MavcgError if the library cannot be written there."""
    if path.is_dir():
        raise MavcgError(f"-o {path}: is a folder; name a file in it")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise MavcgError(f"-o {path}: the folder {path.parent} does not exist or is not writable; name another output")


def _check_next(library: Path, target: Target, is_host: bool) -> None:
    """Raise MavcgError for a path from which the target machine's loader cannot load the next BLAS.

    A file that is missing on this machine may exist on another. is_host: the library is for this machine.
    """
    if not library.is_absolute():
        raise MavcgError(
            f"--next {library}: the loader needs its absolute path on the machine where the library runs, such as "
            "/usr/lib/x86_64-linux-gnu/blas/libblas.so.3"
        )
    if not is_host and not library.exists():
        return
    try:
        elf = open_elf(library)
    except MavcgError as error:
        raise MavcgError(f"--next {error}") from None
    if elf["e_type"] != "ET_DYN" or elf["e_machine"] != _MACHINES[target.arch]:
        raise MavcgError(f"--next {library}: is not a shared library for {target.arch}; name the BLAS of that machine")
