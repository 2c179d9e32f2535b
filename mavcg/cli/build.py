"""The verb `mavcg build`: a multi-versioned library from sources, LLVM IR or a model."""

from dataclasses import replace
from pathlib import Path

from mavcg.cli.build_options import BuildOptions
from mavcg.cli.build_tables import build_table, model_options, model_table
from mavcg.console.option_class import command_of
from mavcg.console.output import console, print_json
from mavcg.errors import MavcgError


def run_build(options: BuildOptions) -> None:
    """Build a library in which each hot function, or each operator of a model, has a version for each core type.

    A version `generic` for all other cores is always in it.

    Without arguments it builds the program and the models that ./mavcg.toml names (`mavcg init` writes one); options
    override the file. Hot functions are named by the file, by --hot, by --profile, or by the profile that `mavcg
    profile` kept here. Without --board or --cores a model is built for this machine, with --target as one generic
    version.

    \b
    mavcg build
    mavcg build --source sgemm.c --hot sgemm --cores cortex-a55,cortex-a75 -o libsgemm.so
    mavcg build --compile-commands build/compile_commands.json --profile app.json --board exynos9820 -o libapp.so
    mavcg build mobilenet_v2.onnx --board exynos9820 -o libmobilenet_v2.so
    mavcg build face.tflite --board host --json
    mavcg build deploy.prototxt --weights alexnet.caffemodel --board rk3588 -o libalexnet.so
    mavcg build vgg16.onnx --board rk3588 --weights bf16           # fully connected layers in half of the memory
    mavcg build resnet50.onnx --board rk3588 --max-size 120MB
    mavcg build face.tflite --board exynos9820 --target aarch64-linux-android --aar face.aar
    mavcg build mobilenet_v2.onnx --board exynos9820 --max-arena 1.2MB
    mavcg build detector.onnx --board host --partial -o libdetector.so --also detector.mavcg.onnx
    mavcg build net.onnx --board host --shape x=1x1..512x384       # any length of 1 to 512 in one library
    mavcg build net.onnx --board host --shape x=1x3x32..512:32x320  # any height in steps of 32
    mavcg build net.onnx --board host --shape x=1,4,8x3x224x224    # three sizes in one library
    mavcg build decoder.onnx --board host --state 'past_*=present_*'  # the cache stays in the context
    mavcg build face.onnx hands.onnx --boards exynos9820,rk3588,raspberry-pi-4 -o libraries
    mavcg build face.onnx hands.onnx --boards exynos9820,rk3588 --workers tls://farm:8786 -o libraries --json
    mavcg build --ir kernels.bc --hot '*gemm*' --board rk3588 --max-growth 5 -o libkernels.so --json
    """
    if options.operators:
        _list_operators(options.as_json)
        return
    _refuse_foreign(options.foreign)
    from mavcg.cli.build_boards import build_for_boards, refuse_without_boards
    from mavcg.importers.load import is_model

    inputs = options.inputs or []
    if options.boards is not None:
        build_for_boards(options, options.boards)
        return
    refuse_without_boards(inputs, options.workers)
    if inputs and is_model(inputs[0]):
        from mavcg.cli.build_model import build_model_file

        build_model_file(options, inputs[0])
        return
    if inputs:
        _refuse_code(inputs[0])
    _build_from_tables(options, inputs[0] if inputs else None)


build = command_of("build", BuildOptions, run_build)


def _build_from_tables(options: BuildOptions, config: Path | None) -> None:
    """Build what a mavcg.toml and the options name, or a program that the options alone describe.

    config: the build file; None for ./mavcg.toml, unless options name inputs. Raises: MavcgError for options without
    effect.
    """
    from mavcg.program.buildfile import FILE_NAME, read_project

    has_input = bool(options.source or options.ir or options.compile_commands)
    path = config or (Path(FILE_NAME) if not has_input and Path(FILE_NAME).is_file() else None)
    project = read_project(path) if path is not None else None
    tables = build_table(options), model_table(options)
    if project is None or not project.models:
        for option, value in model_options(options).items():
            if value is not None:
                raise MavcgError(f"{option}: is for models; name a model's file (.onnx, .tflite or .prototxt)")
    if options.simulate_unsure:
        raise MavcgError("--simulate-unsure: is for one model; name the model's file")
    if options.aar is not None:
        raise MavcgError(f"--aar {options.aar}: packs one model; name the model's file in the place of {path}")
    if project is not None:
        from mavcg.cli.build_project import build_project

        build_project(project, *tables, options.jobs, options.as_json)
        return
    _build_program(options)


def _build_program(options: BuildOptions) -> None:
    """Build the program that options alone describe; if they name no hot function, by the profile that is kept here."""
    from mavcg.cli.build_project import build_and_report
    from mavcg.console.resource_limits import build_limits
    from mavcg.program.buildfile import PROFILE_NAME
    from mavcg.program.request import make_request

    table = build_table(options)
    if not table.hot and not table.profile and Path(PROFILE_NAME).is_file():
        table = replace(table, profile=PROFILE_NAME)
    limits = build_limits(table.max_seconds, table.max_memory)
    document = build_and_report(*make_request(table, Path(), options.jobs), limits, options.as_json)
    if options.as_json:
        print_json(document)


def _list_operators(as_json: bool) -> None:
    """Print the operators that the importers support, by format."""
    from mavcg.importers.operators import operators_json, operators_page

    if as_json:
        print_json(operators_json())
    else:
        for line in operators_page().split("\n"):
            console().print(line, highlight=False, markup=False)


def _refuse_code(path: Path) -> None:
    """Refuse code where a build file is expected. Raises: MavcgError naming the option that takes the file."""
    from mavcg.program.sources.compile_commands import LANGUAGES

    suffix = path.suffix
    if suffix in LANGUAGES or suffix in (".S", ".s", ".sx"):
        raise MavcgError(f"{path}: is source code, not a build file; give it with --source {path}")
    if suffix in (".bc", ".ll"):
        raise MavcgError(f"{path}: is LLVM IR, not a build file; give it with --ir {path}")


def _refuse_foreign(foreign: list[str] | None) -> None:
    """Raise MavcgError for --foreign, because built libraries call no other library."""
    if foreign:
        raise MavcgError(
            f"--foreign {foreign[0]}: a built library contains all its code and calls no other library, so that it "
            "also runs on machines without that one; leave the option out (`mavcg select --board host --foreign` shows "
            "what the foreign library would gain)"
        )
