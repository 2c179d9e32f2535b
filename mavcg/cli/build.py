"""The verb `mavcg build`: a multi-versioned library from sources, LLVM IR or a model."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mavcg.cli.option_values import input_from_here, names_of_option, path_from_here, paths_from_here
from mavcg.cli.output import note, print_json
from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from mavcg.program_pipeline.buildfile import BuildFile


def build(
    inputs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[mavcg.toml|MODEL..]",
            help="Build file (./mavcg.toml if any), .onnx, .tflite or .prototxt; several models with --boards.",
        ),
    ] = None,
    source: Annotated[
        list[str] | None, typer.Option(help="C, C++ or assembly source; may be repeated, may be a pattern.")
    ] = None,
    ir: Annotated[list[str] | None, typer.Option(help="LLVM bitcode or textual IR; may be repeated.")] = None,
    compile_commands: Annotated[str | None, typer.Option(metavar="FILE", help="A compile_commands.json.")] = None,
    only_hot: Annotated[
        bool, typer.Option("--only-hot", help="With --compile-commands: build only files with hot functions.")
    ] = False,
    query_driver: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GLOB,..",
            help="Compilers that --compile-commands may name beside those of the system and of PATH; they are run to "
            "query their headers.",
        ),
    ] = None,
    flag: Annotated[
        list[str] | None, typer.Option(help="Compiler flag for --source, such as --flag=-Iinclude.")
    ] = None,
    compiler: Annotated[str | None, typer.Option(help="A clang to use instead of ziglang's.")] = None,
    hot: Annotated[
        str | None, typer.Option(metavar="FUNCTION,..", help="Functions to make versions of, by name or pattern.")
    ] = None,
    profile: Annotated[
        str | None, typer.Option(metavar="FILE", help="Make versions of the functions that are hot in this profile.")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(metavar="PERCENT", help="Share of the run that makes a function hot; default 5.")
    ] = None,
    max_functions: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Make versions of at most N functions.")
    ] = None,
    cores: Annotated[str | None, typer.Option(metavar="A,B,..", help="Core types that get a version each.")] = None,
    board: Annotated[str | None, typer.Option(help="A board: a version for each of its core types.")] = None,
    boards: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,..",
            help="A library of each model for each of these boards, in a folder OUT/BOARD; kernels that they share are "
            "compiled once and kept for later builds.",
        ),
    ] = None,
    workers: Annotated[
        str | None,
        typer.Option(
            metavar="N|ADDRESS",
            help="Of --boards: processes that build (0: this one), or a Dask scheduler, dask://HOST:8786; a process "
            "for each CPU.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="TRIPLE", help="System to build for, such as aarch64-linux-gnu.2.17 (the default for Arm)."
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="OUT.so", help="Library (.so; .dylib for macOS) or object (.o)."),
    ] = None,
    measurements: Annotated[
        str | None, typer.Option(metavar="FILE", help="Measured gains, from mavcg measure.")
    ] = None,
    min_gain: Annotated[
        float | None, typer.Option(metavar="PERCENT", help="Drop versions with a smaller known gain; default 1.")
    ] = None,
    keep_slower: Annotated[
        bool,
        typer.Option(
            "--keep-slower",
            help="Keep versions that the core's model says are slower than generic by more than its error.",
        ),
    ] = False,
    max_growth: Annotated[float | None, typer.Option(metavar="PERCENT", help="Bound on code growth.")] = None,
    rounding: Annotated[
        str | None, typer.Option(metavar="exact|per-core", help="Whether fast-math may round differently per core.")
    ] = None,
    tune: Annotated[
        str | None,
        typer.Option(metavar="off|fast|best", help="Split and reschedule loops for cores that gain; default fast."),
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=1x3x224x224",
            help="Shape of a model's input with free dimensions; 1..8x3.. or 1,4x3..: several sizes.",
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Weights of a .prototxt; default: the .caffemodel of that name beside it."),
    ] = None,
    threads: Annotated[
        str | None,
        typer.Option(
            metavar="N|auto", help="Number of threads of a model library; default 1. auto: as predicted to be fastest."
        ),
    ] = None,
    max_error: Annotated[
        float | None,
        typer.Option(
            metavar="E",
            help="Largest error of a model's f32 operators, relative to their largest sum; default 1e-4.",
        ),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            metavar="S",
            help="How primitives and layouts of a model's convolutions are selected: pbqp (the optimum, for a --board; "
            "the default there), local, sum2d or family:NAME as `mavcg select` knows them, or engine (all in HWC, "
            "implicit products and Winograd only; the default without a board).",
        ),
    ] = None,
    db: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="For the selection: database of costs from `mavcg tune`; default: this user's."
        ),
    ] = None,
    simulate_unsure: Annotated[
        bool,
        typer.Option(
            "--simulate-unsure",
            help="For the selection, on AArch64 boards: first simulate the primitives among which the model cannot "
            "tell the fastest; a second build is fast.",
        ),
    ] = False,
    foreign: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=PATH]",
            help="Refused: built libraries call no foreign library; see `mavcg select --foreign`.",
        ),
    ] = None,
    max_workspace: Annotated[
        int | None,
        typer.Option(metavar="BYTES", min=0, help="For the selection: exclude primitives that need more memory."),
    ] = None,
    max_size: Annotated[
        str | None,
        typer.Option(
            metavar="BYTES|MB", help="Limit on the bytes of a model's packed weights, such as 4000000 or 4MB."
        ),
    ] = None,
    partial: Annotated[
        bool,
        typer.Option(
            "--partial",
            help="Of an ONNX or TFLite model, build the subgraphs that can be built; ONNX Runtime or LiteRT keeps the "
            "rest and calls them.",
        ),
    ] = False,
    also: Annotated[
        Path | None,
        typer.Option(
            metavar="OUT.onnx", help="With --partial: the model that calls the library; default MODEL.mavcg.onnx."
        ),
    ] = None,
    min_share: Annotated[
        float | None,
        typer.Option(
            metavar="PERCENT", help="With --partial: least share of the model's MACs in a subgraph; default 1."
        ),
    ] = None,
    aar: Annotated[
        Path | None,
        typer.Option(
            metavar="OUT.aar", help="For a model for Android: also pack library and header for Gradle (prefab)."
        ),
    ] = None,
    max_arena: Annotated[
        str | None,
        typer.Option(
            metavar="BYTES|MB",
            help="Limit on the buffers of a model's context; layers are computed by parts of rows where needed.",
        ),
    ] = None,
    depth_first: Annotated[
        str | None,
        typer.Option(
            metavar="auto|on|off",
            help="Layers of a model by bands of rows that stay in a cache: auto, where it is predicted to pay.",
        ),
    ] = None,
    max_seconds: Annotated[
        float | None,
        typer.Option(metavar="S", help="Limit on the build's time; default for a model 900 and 30 per MB, else 3600."),
    ] = None,
    max_memory: Annotated[
        str | None,
        typer.Option(
            metavar="BYTES|GB", help="Limit on the memory of the build's processes; default 80 % of the machine's."
        ),
    ] = None,
    link_option: Annotated[
        list[str] | None,
        typer.Option(metavar="OPTION", help="For the library's link: -Wl,-z,now and its like, an archive, an object."),
    ] = None,
    version_script: Annotated[
        str | None, typer.Option(metavar="FILE", help="Linker version script: what is exported, as which version.")
    ] = None,
    library: Annotated[
        list[str] | None, typer.Option("-l", "--library", metavar="NAME", help="Link with libNAME; may be repeated.")
    ] = None,
    library_dir: Annotated[
        list[str] | None,
        typer.Option("-L", "--library-dir", metavar="FOLDER", help="Folder in which to look for -l NAME."),
    ] = None,
    soname: Annotated[
        str | None, typer.Option(metavar="NAME", help="The library's name for the loader; default: its file's name.")
    ] = None,
    strip: Annotated[bool, typer.Option("--strip", help="Leave out local symbols and debug information.")] = False,
    runtime: Annotated[
        str | None,
        typer.Option(
            metavar="static|shared", help="The selector: a part of the library, or libmavcg_rt.so; default static."
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option("-j", "--jobs", min=1, help="Number of compilers at a time; default: one for each CPU."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Build a library in which every hot function, or every operator of a model, has a version per core; `generic` is
    always there.

    Without arguments it builds what ./mavcg.toml names, program and models; options override the file (`mavcg init`
    writes one). The file, --hot or --profile name hot functions, or the profile that `mavcg profile` kept
    here. A model needs --board or --cores, but for --partial, which takes this
    machine, and --target, which takes one generic version.

    \b
    mavcg build
    mavcg build --source sgemm.c --hot sgemm --cores cortex-a55,cortex-a75 -o libsgemm.so
    mavcg build --compile-commands build/compile_commands.json --profile app.json --board exynos9820 -o libapp.so
    mavcg build mobilenet_v2.onnx --board exynos9820 -o libmobilenet_v2.so
    mavcg build face.tflite --board host --json
    mavcg build deploy.prototxt --weights alexnet.caffemodel --board rk3588 -o libalexnet.so
    mavcg build resnet50.onnx --board rk3588 --max-size 120MB
    mavcg build face.tflite --board exynos9820 --target aarch64-linux-android --aar face.aar
    mavcg build mobilenet_v2.onnx --board exynos9820 --max-arena 1.2MB
    mavcg build detector.onnx --board host --partial -o libdetector.so --also detector.mavcg.onnx
    mavcg build net.onnx --board host --shape x=1..8x3x224x224     # eight sizes in one library
    mavcg build face.onnx hands.onnx --boards exynos9820,rk3588,raspberry-pi-4 -o libraries
    mavcg build face.onnx hands.onnx --boards exynos9820,rk3588 --workers dask://farm:8786 -o libraries --json
    mavcg build --ir kernels.bc --hot '*gemm*' --board rk3588 --max-growth 5 -o libkernels.so --json
    """
    _refuse_foreign(foreign)
    from mavcg.cli.build_boards import build_and_report as build_libraries
    from mavcg.cli.build_boards import farm_requests, refuse_without_boards
    from mavcg.cli.resource_limits import build_limits
    from mavcg.importers.load import is_model
    from mavcg.model_pipeline.request import SelectionOptions

    of_programs = {
        "--source": source, "--ir": ir, "--compile-commands": compile_commands, "--only-hot": only_hot,
        "--query-driver": query_driver,
        "--flag": flag, "--compiler": compiler, "--hot": hot, "--profile": profile, "--threshold": threshold,
        "--max-functions": max_functions, "--measurements": measurements, "--min-gain": min_gain,
        "--max-growth": max_growth, "--rounding": rounding, "--keep-slower": keep_slower,
        "--link-option": link_option, "--version-script": version_script, "--library": library,
        "--library-dir": library_dir, "--soname": soname, "--runtime": runtime,
    }  # fmt: skip
    selection = SelectionOptions(strategy, db, max_workspace, max_size, max_arena, depth_first)
    if boards is not None:
        from mavcg.model_pipeline.request import parse_threads

        single = {"--board": board, "--cores": cores, "--partial": partial, "--also": also, "--min-share": min_share,
                  "--weights": weights, "--aar": aar, "--simulate-unsure": simulate_unsure}  # fmt: skip
        requests = farm_requests(
            inputs or (), boards, output, workers, selection,
            {**of_programs, **single},
            {"target": target, "shapes": shape or (), "threads": parse_threads(threads), "jobs": jobs, "tune": tune,
             "max_error": max_error},
        )  # fmt: skip
        requests = [replace(request, strip=strip) for request in requests]
        build_libraries(requests, workers, max_seconds, max_memory, as_json)
        return
    refuse_without_boards(inputs or (), workers)
    config = inputs[0] if inputs else None
    if config is not None and is_model(config):
        from mavcg.cli.build_model import assume_machine, build_partial_and_report
        from mavcg.cli.build_model import build_and_report as build_model_library
        from mavcg.model_pipeline.request import (
            make_model_request,
            make_partial_request,
            parse_threads,
            refuse_program_options,
        )

        refuse_program_options(of_programs)
        board, cores, assumed = assume_machine(board, cores, target, partial)
        model_request, _ = make_model_request(
            config, output, board, names_of_option(cores), target, shape or (), parse_threads(threads), jobs, tune,
            max_error, selection, weights, aar, several=True,
        )  # fmt: skip
        model_request = replace(model_request, strip=strip)
        if simulate_unsure:
            from mavcg.cli.build_model import simulate_unsure_choices

            simulate_unsure_choices(model_request, partial, board)
        limits = build_limits(max_seconds, max_memory, config)
        partial_request = make_partial_request(model_request, partial, also, min_share)
        if partial_request is not None:
            document = build_partial_and_report(partial_request, limits, as_json)
        else:
            document = build_model_library(model_request, limits, as_json)
        if assumed:  # behind what may fail, whose error stands alone
            note(assumed)
        if as_json:
            print_json(document)
        return
    from mavcg.program_pipeline.buildfile import FILE_NAME, BuildFile, ModelTable, read_project

    if config is not None:
        _refuse_code(config)
    options = BuildFile(
        output=path_from_here(output), sources=paths_from_here(source), ir=paths_from_here(ir),
        compile_commands=path_from_here(compile_commands), flags=tuple(flag or ()), compiler=compiler,
        hot=(hot,) if hot is not None else (), profile=path_from_here(profile), threshold=threshold,
        only_hot=only_hot or None, max_functions=max_functions, cores=names_of_option(cores), board=board,
        target=target,
        measurements=path_from_here(measurements), min_gain=min_gain, max_growth=max_growth, rounding=rounding,
        max_seconds=max_seconds, max_memory=max_memory,
        tune=tune, keep_slower=keep_slower or None, query_driver=tuple(query_driver or ()),
        link_options=tuple(input_from_here(option) for option in link_option or ()),
        version_script=path_from_here(version_script), libraries=tuple(library or ()),
        library_dirs=paths_from_here(library_dir), soname=soname, strip=strip or None,
        runtime=runtime,
    )  # fmt: skip
    of_models = ModelTable(
        "", output=options.output, board=board, cores=options.cores, target=target, shapes=tuple(shape or ()),
        threads=threads, tune=tune, max_error=max_error, strategy=strategy, db=path_from_here(str(db) if db else None),
        max_workspace=max_workspace, max_size=max_size, max_arena=max_arena,
        depth_first=depth_first, max_seconds=max_seconds,
        max_memory=max_memory, weights=path_from_here(str(weights) if weights else None), strip=strip or None,
        partial=partial or None, also=path_from_here(str(also) if also else None), min_share=min_share,
    )  # fmt: skip
    has_input = bool(source or ir or compile_commands)
    path = config or (Path(FILE_NAME) if not has_input and Path(FILE_NAME).is_file() else None)
    project = read_project(path) if path is not None else None
    if project is None or not project.models:
        _refuse_model_options({
            "--shape": shape, "--weights": weights, "--threads": threads, "--max-error": max_error,
            "--strategy": strategy, "--db": db,
            "--max-workspace": max_workspace, "--max-size": max_size, "--max-arena": max_arena,
            "--depth-first": depth_first,
            "--partial": partial or None, "--also": also,
            "--min-share": min_share, "--aar": aar,
        })  # fmt: skip
    if simulate_unsure:
        raise MavcgError("--simulate-unsure: is for one model; name its file")
    if aar is not None:
        raise MavcgError(f"--aar {aar}: packs one model; name its file in the place of {path}")
    if project is not None:
        from mavcg.cli.build_project import build_project

        build_project(project, options, of_models, jobs, as_json)
        return
    _build_program(options, jobs, as_json)


def _build_program(options: "BuildFile", jobs: int | None, as_json: bool) -> None:
    """Build the program that options alone describe, hot by the profile kept here where they name nothing hot."""
    from mavcg.cli.build_program import build_and_report
    from mavcg.cli.resource_limits import build_limits
    from mavcg.program_pipeline.buildfile import PROFILE_NAME
    from mavcg.program_pipeline.request import make_request

    if not options.hot and not options.profile and Path(PROFILE_NAME).is_file():
        options = replace(options, profile=PROFILE_NAME)
    limits = build_limits(options.max_seconds, options.max_memory)
    document = build_and_report(*make_request(options, Path(), jobs), limits, as_json)
    if as_json:
        print_json(document)


def _refuse_code(path: Path) -> None:
    """Refuse code where a build file is expected. Raises: MavcgError naming the option that takes the file."""
    from mavcg.sources.compile_commands import LANGUAGES

    suffix = path.suffix
    if suffix in LANGUAGES or suffix in (".S", ".s", ".sx"):
        raise MavcgError(f"{path}: is source code, not a build file; give it with --source {path}")
    if suffix in (".bc", ".ll"):
        raise MavcgError(f"{path}: is LLVM IR, not a build file; give it with --ir {path}")


def _refuse_foreign(foreign: list[str] | None) -> None:
    """Raise MavcgError for --foreign: libraries call nothing foreign."""
    if foreign:
        raise MavcgError(
            f"--foreign {foreign[0]}: a library that is built has all its code in it and calls no other library, so "
            "that it runs on machines without that one; leave it out (`mavcg select --board host --foreign` says what "
            "it would bring)"
        )


def _refuse_model_options(given: Mapping[str, object]) -> None:
    for option, value in given.items():
        if value is not None:
            raise MavcgError(f"{option}: is for models; name one (.onnx, .tflite or .prototxt)")
