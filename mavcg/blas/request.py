"""Turns the options of `mavcg blas build` into a BlasRequest: names resolved, every bad value named."""

from pathlib import Path

from mavcg.blas.library import BlasRequest, check_output
from mavcg.errors import MavcgError
from mavcg.hardware.target import Target, default_target, host_target, parse_target
from mavcg.hosts.host import HOST, find_board, measured_host_board
from mavcg.objects.elf import open_elf
from mavcg.profiles.load import cores_for
from mavcg.toolchain.codegen import default_workers

_MACHINES = {"aarch64": "EM_AARCH64", "x86_64": "EM_X86_64"}


def make_blas_request(
    output: Path, board: str | None, cores: str | None, target: str | None, ilp64: bool, soname: str | None,
    strip: bool, jobs: int | None, next_library: Path | None = None,
) -> BlasRequest:  # fmt: skip
    """Return everything that a build needs. Raises: MavcgError naming the option, its value and the remedy."""
    its_board = find_board(board) if board else None
    if its_board is None and not cores:
        raise MavcgError(
            "blas build: no cores are named; give --board NAME, --board host or --cores A,B,.. (`mavcg cores` lists "
            "both)"
        )
    given = cores.split(",") if cores else list(its_board.cores) if its_board else []
    named = [name for name in given if name != "generic"]
    chosen = cores_for(list(dict.fromkeys(named))) if named else ()
    if target:
        its_target = parse_target(target)
    elif its_board is not None:
        its_target = parse_target(its_board.target)
    else:
        its_target = default_target(chosen[0].arch) if chosen else host_target()
    for core in chosen:
        if core.arch != its_target.arch:
            raise MavcgError(
                f"--cores {core.name}: is {core.arch}, and the target {its_target.zig_name} is not; name cores of one "
                "architecture, or another --target"
            )
    if its_target.system not in ("linux-gnu", "linux-musl"):
        raise MavcgError(
            f"--target {its_target.zig_name}: a BLAS is built for Linux with glibc or musl; take "
            f"{its_target.arch}-linux-gnu or {its_target.arch}-linux-musl"
        )
    if output.suffix != ".so" and ".so." not in output.name:
        raise MavcgError(f"-o {output}: a BLAS is a shared library; name one, such as -o libmavcg_blas.so")
    check_output(output)
    if next_library is not None:
        _check_next(next_library, its_target, here=board == HOST)
    soname = soname or (next_library.name if next_library is not None else None)
    if board == HOST:
        its_board = measured_host_board()
    return BlasRequest(
        output, its_target, chosen, its_board, ilp64, soname, next_library, strip, jobs or default_workers()
    )  # fmt: skip


def _check_next(library: Path, target: Target, here: bool) -> None:
    """Raise MavcgError for a path from which the loader of the target's machine could not load the next BLAS.

    A file that is not on this machine may be on another; here: the library is for this machine.
    """
    if not library.is_absolute():
        raise MavcgError(
            f"--next {library}: the loader needs its whole path on the machine where the library runs, such as "
            "/usr/lib/x86_64-linux-gnu/blas/libblas.so.3"
        )
    if not here and not library.exists():
        return
    try:
        elf = open_elf(library)
    except MavcgError as error:
        raise MavcgError(f"--next {error}") from None
    if elf["e_type"] != "ET_DYN" or elf["e_machine"] != _MACHINES[target.arch]:
        raise MavcgError(f"--next {library}: is no shared library for {target.arch}; name the BLAS of that machine")
