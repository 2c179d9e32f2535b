"""The verbs `mavcg blas ..`: build BLAS libraries with versions per core."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mavcg.console.option_class import command_of, group_of
from mavcg.console.output import Progress, console, print_json
from mavcg.console.shared_options import Jobs, JsonReport

if TYPE_CHECKING:
    from mavcg.model.blas.library import BlasResult

HELP = """Build a BLAS whose matrix products have versions per core; other routines come from the system's BLAS.

\b
mavcg blas build --board host -o libmavcg_blas.so
LD_PRELOAD=$PWD/libmavcg_blas.so ./app
"""


@dataclass(frozen=True)
class BlasBuildOptions:
    """The command line of `mavcg blas build`."""

    output: Annotated[Path, typer.Option("-o", "--output", metavar="LIB.so", help="The library to write.")]
    board: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Board whose core types get a version each: host, or one that `mavcg cores` lists."
        ),
    ] = None
    cores: Annotated[
        str | None, typer.Option(metavar="A,B,..", help="Core types that get a version each, instead of a board's.")
    ] = None
    target: Annotated[
        str | None,
        typer.Option(
            metavar="TRIPLE", help="System to build for, such as aarch64-linux-gnu.2.17; default: the board's."
        ),
    ] = None
    ilp64: Annotated[
        bool,
        typer.Option("--ilp64", help="Routines without a suffix take 64-bit integers, as in Debian's libblas64."),
    ] = False
    soname: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The library's name for the loader; default: its file's name, or that of --next."
        ),
    ] = None
    next_library: Annotated[
        Path | None,
        typer.Option(
            "--next",
            metavar="FILE",
            help="BLAS that has all other routines; loaded with the library, by its path.",
        ),
    ] = None
    strip: Annotated[bool, typer.Option("--strip", help="Leave out local symbols.")] = False
    versions: Annotated[
        str | None,
        typer.Option(
            metavar="one|modelled|all",
            help="Versions of each core, for machines that hide some of its extensions: one; further ones, with code "
            "of their own where it is known to gain (the default) or wherever it differs (all).",
        ),
    ] = None
    tune: Annotated[
        str | None,
        typer.Option(
            metavar="off|fast|best",
            help="Instruction order of kernels for cores with a timing profile: as the compiler leaves it; heuristic "
            "(the default); best that an exact solver finds, with up to 8 s for a loop.",
        ),
    ] = None
    jobs: Jobs = None
    as_json: JsonReport = False


def run_build(options: BlasBuildOptions) -> None:
    """Build a library with sgemm, dgemm, sgemv, dgemv, by Fortran and CBLAS names, for 32- and 64-bit integers.

    Also with OpenBLAS's sbgemm and shgemm: matrices A and B in bfloat16 or float16, C in f32; hgemm: all in float16.
    If a program preloads it, the library replaces these routines; the others still come from the program's own BLAS.

    \b
    mavcg blas build --board host -o libmavcg_blas.so
    LD_PRELOAD=$PWD/libmavcg_blas.so python3 -c 'import numpy as np; print((np.eye(500) @ np.eye(500)).sum())'
    mavcg blas build --board rk3588 -o libmavcg_blas.so
    mavcg blas build --board snapdragon-8-gen-1 --versions one -o libmavcg_blas.so
    mavcg blas build --board host --next /usr/lib/x86_64-linux-gnu/blas/libblas.so.3 -o libblas.so.3
    """
    from mavcg.model.blas.library import build_blas
    from mavcg.model.blas.request import BlasOptions, make_blas_request

    request = make_blas_request(
        options.output,
        BlasOptions(
            board=options.board,
            cores=options.cores,
            target=options.target,
            ilp64=options.ilp64,
            soname=options.soname,
            strip=options.strip,
            jobs=options.jobs,
            versions=options.versions,
            tune=options.tune,
        ),
        options.next_library,
    )
    with Progress() as progress:
        result = build_blas(request, progress)
    if options.as_json:
        print_json(result.as_json())
        return
    _show(result)


build = command_of("build", BlasBuildOptions, run_build)
blas = group_of(HELP, build=build)


def _show(result: "BlasResult") -> None:
    from mavcg.model.blas.report import show_blas_note

    console().print(f"{result.output}: {result.loaded_bytes} bytes loaded, built in {result.seconds:.1f} s")
    show_blas_note(result.note, console())
