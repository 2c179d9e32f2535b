"""The verb `mavcg app build`: build one library of an application of several networks."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from mavcg.console.option_class import command_of
from mavcg.console.output import console, print_json
from mavcg.console.shared_options import (
    AppMaxError,
    AppStrategy,
    AppThreads,
    IgnoreDeclaredShapes,
    Jobs,
    JsonReport,
    MaxMemory,
    Strip,
)


@dataclass(frozen=True)
class AppBuildOptions:
    """The command line of `mavcg app build`."""

    file: Annotated[
        Path,
        typer.Argument(
            metavar="APP.toml", help="File with the networks, the memory limit, and which networks run in parallel."
        ),
    ]
    board: Annotated[
        str | None,
        typer.Option(metavar="B", help="Board whose core types get a version each; host is this machine."),
    ] = None
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="LIB.so", help="The library to write; default: lib<name of APP>.so."),
    ] = None
    cores: Annotated[str | None, typer.Option(metavar="A,B,..", help="Core types that get a version each.")] = None
    target: Annotated[
        str | None, typer.Option(metavar="TRIPLE", help="System to build for, such as aarch64-linux-gnu.2.17.")
    ] = None
    threads: AppThreads = None
    tune: Annotated[
        str | None,
        typer.Option(
            metavar="off|fast|best",
            help="Effort spent on rescheduling loops for cores that gain; default fast.",
        ),
    ] = None
    max_error: AppMaxError = None
    strategy: AppStrategy = None
    ignore_declared_shapes: IgnoreDeclaredShapes = False
    strip: Strip = False
    max_seconds: Annotated[
        float | None,
        typer.Option(metavar="S", help="Longest time for the build, in seconds; default as in `mavcg build`."),
    ] = None
    max_memory: MaxMemory = None
    jobs: Jobs = None
    as_json: JsonReport = False


def run_build(options: AppBuildOptions) -> None:
    """Build one library of all networks of an application, which share one memory.

    Networks that share memory run one at a time: while one runs, a run of another returns MAVCG_BUSY. Networks that
    `parallel` in APP.toml lists together have separate memories. `memory` in APP.toml limits the sum of packed weights
    and buffers. A header, a pkg-config file and a CMake file are written beside the library.

    \b
    mavcg app build app.toml --board exynos9820 -o libapp.so
    mavcg app build app.toml --board host --json
    mavcg run libapp.so --network detector --seed 0
    """
    from mavcg.apps.application_file import read_application_file
    from mavcg.apps.library import build_application
    from mavcg.apps.library_report import application_json, show_application
    from mavcg.apps.quantised_networks import quantised_files
    from mavcg.console.resource_limits import build_limits, enforce_limits
    from mavcg.console.shared_options import names_of_option
    from mavcg.model.request import ModelOptions, SelectionOptions, make_model_request, parse_threads
    from mavcg.runtime.companions import companions_sentence, library_stem

    described = read_application_file(options.file, options.ignore_declared_shapes)
    request, _ = make_model_request(
        options.file,
        None if options.output is None else str(options.output),
        ModelOptions(
            board=options.board,
            cores=names_of_option(options.cores),
            target=options.target,
            threads=parse_threads(options.threads),
            jobs=options.jobs,
            tune=options.tune,
            max_error=options.max_error,
        ),
        SelectionOptions(options.strategy),
    )
    limits = build_limits(options.max_seconds, options.max_memory, max((n.file for n in described.networks), key=_size))
    with (
        enforce_limits(limits, str(options.file)) as progress,
        quantised_files(described, request.target.arch, progress) as converted,
    ):
        result = build_application(converted, replace(request, strip=options.strip), progress)
    if options.as_json:
        print_json(application_json(result))
        return
    show_application(result.note, console())
    companions = companions_sentence(library_stem(result.output), result.companions)
    console().print(f"library: {result.output}, {result.library_bytes:,} bytes; beside it {companions}")


build = command_of("build", AppBuildOptions, run_build)


def _size(path: Path) -> int:
    return path.stat().st_size
