"""Makes a BuildRequest from options and mavcg.toml: resolves names and checks every value."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from mavcg.assembly.tuning_options import Tuning, parse_tuning
from mavcg.errors import MavcgError
from mavcg.hardware.board import Board
from mavcg.hardware.core import Core
from mavcg.hardware.feature_levels import parse_levels
from mavcg.hosts.host import find_board
from mavcg.objects.link_options import LinkOptions, make_link_options
from mavcg.profiles.load import cores_for
from mavcg.program.build_values import BuildRequest
from mavcg.program.buildfile import FILE_NAME, BuildFile, ModelTable
from mavcg.program.hot_symbols import HotSymbol, parse_hot
from mavcg.program.input_units import command_units, source_units
from mavcg.program.lto import Lto
from mavcg.program.sources.to_ir import Compiler
from mavcg.program.version_choice import MIN_GAIN, Gains, VersionLimits
from mavcg.program.version_growth import DEFAULT_FREE_BYTES, DEFAULT_MAX_GROWTH
from mavcg.toolchain.target import Target, default_target, parse_target

DEFAULT_THRESHOLD_PERCENT = 5.0  # as in profiling.ranking, which a build without a profile does not import
Table = TypeVar("Table", BuildFile, ModelTable)


def make_request(
    file: BuildFile, folder: Path, jobs: int | None = None, hot_functions: Sequence[HotSymbol] | None = None
) -> tuple[BuildRequest, Board | None]:
    """Return the build request, and the board if one is named, from the merged options.

    Args:
        folder: the folder for relative paths.
        jobs: number of compilers that run at a time; None for the default.
        hot_functions: functions to be versioned instead of the file's hot names and profile; None for the file's.
    Raises: MavcgError with the option, its value and the remedy.
    """
    if not (file.sources or file.ir or file.compile_commands):
        raise MavcgError(
            "build: there is nothing to build; give --source FILE, --ir FILE or --compile-commands FILE, "
            f"or write a {FILE_NAME}"
        )
    board = find_board(file.board) if file.board else None
    target = _target(file, board, _cores(file, board))
    chosen = settings(file, folder)
    hot = _hot(file, folder) if hot_functions is None else tuple(hot_functions)
    units_of_commands, notes = command_units(file, folder, hot)
    units_of_sources, asm_units = source_units(file, folder)
    ir_files = tuple(folder / name for name in file.ir)
    request = BuildRequest(
        output=_output(file, folder, target),
        target=target,
        cores=chosen.cores,
        hot=hot,
        units=(*units_of_sources, *units_of_commands),
        asm_units=asm_units,
        notes=notes,
        ir_files=ir_files,
        compiler=chosen.compiler,
        limits=chosen.limits,
        gains=chosen.gains,
        per_core_rounding=chosen.per_core_rounding,
        tuning=chosen.tuning,
        link=_link(file, folder, target),
        runtime=runtime_kind(file, target),
        lto=Lto() if Path(file.output or "").suffix == ".bc" else None,
    )
    return (replace(request, workers=jobs) if jobs else request), board


def _output(file: BuildFile, folder: Path, target: Target) -> Path:
    if not file.output:
        raise MavcgError("build: no output is named; give -o LIBRARY.so, or build.output in mavcg.toml")
    output = folder / file.output
    library = ".dylib" if target.system == "macos" else ".so"
    if output.suffix not in (library, ".o", ".bc"):
        raise MavcgError(
            f"-o {output}: names neither a shared library ({library}) nor an object (.o) nor bitcode (.bc) for "
            f"{target.zig_name}; name one of these"
        )
    if output.is_dir():
        raise MavcgError(f"-o {output}: is a folder; name a file in it")
    return output


def runtime_kind(file: BuildFile, target: Target) -> str:
    """Return the selector's kind by the option --runtime: "small", the default, "static" or "shared".

    Raises: MavcgError for an unknown value, and for a target that has the static one only.
    """
    if file.runtime not in (None, "static", "shared", "small"):
        raise MavcgError(
            f"--runtime {file.runtime}: is neither small nor static nor shared; small and static need no other file"
        )
    if file.runtime in ("shared", "small") and target.system == "macos":
        raise MavcgError(
            f"--runtime {file.runtime}: is for Linux and Android, and the target is {target.zig_name}; leave it out"
        )
    return file.runtime or ("static" if target.system == "macos" else "small")


def _link(file: BuildFile, folder: Path, target: Target) -> LinkOptions:
    link = make_link_options(
        file.link_options, file.version_script, file.libraries, file.library_dirs, file.soname, bool(file.strip), folder
    )
    if link.option_names and Path(file.output or "").suffix in (".o", ".bc"):
        raise MavcgError(
            f"{link.option_names[0]}: is for the link of a library, and {file.output} is an object; give it there"
        )
    return link


@dataclass(frozen=True)
class Settings:
    """The settings of a build file about versions, without inputs and output."""

    cores: tuple[Core, ...]
    compiler: Compiler
    limits: VersionLimits
    gains: Gains
    per_core_rounding: bool
    tuning: Tuning


def settings(file: BuildFile, folder: Path) -> Settings:
    """Return the checked settings of a build file. Raises: MavcgError for an invalid value, with its option."""
    return Settings(
        cores=_cores(file, find_board(file.board) if file.board else None),
        compiler=Compiler(command=tuple(file.compiler.split())) if file.compiler else Compiler(),
        limits=_limits(file),
        gains=_gains(file, folder),
        per_core_rounding=_per_core_rounding(file),
        tuning=parse_tuning(file.tune),
    )


def _cores(file: BuildFile, board: Board | None) -> tuple[Core, ...]:
    names = [name for name in file.cores if name != "generic"]
    if board and not names:
        names = list(board.cores)
    if not names and not file.cores and board:
        raise MavcgError(
            f"--board {board.name}: none of its cores is known (`mavcg cores` shows this machine's); name cores that"
            " are like them by --cores"
        )
    if not names and not file.cores:
        raise MavcgError("build: no cores are named; give --cores A,B,.. or --board NAME (`mavcg cores` lists both)")
    return cores_for(list(dict.fromkeys(names)))


def _target(file: BuildFile, board: Board | None, cores: Sequence[Core]) -> Target:
    if file.target:
        target = parse_target(file.target)
    elif board:
        target = parse_target(board.target)
    else:
        from mavcg.toolchain.target import host_target

        target = default_target(cores[0].arch) if cores else host_target()
    for core in cores:
        if core.arch != target.arch:
            raise MavcgError(
                f"--cores {core.name}: is {core.arch}, and the target {target.zig_name} is not; "
                "name cores of one architecture, or another --target"
            )
    return target


def _hot(file: BuildFile, folder: Path) -> tuple[HotSymbol, ...]:
    named = tuple(symbol for text in file.hot for symbol in parse_hot(text))
    if not file.profile:
        if not named:
            raise MavcgError(
                "build: no hot function is named; give --profile FILE (made by `mavcg profile -o FILE`) or "
                "--hot FUNCTION,.."
            )
        return named
    return named + profile_hot(folder / file.profile, file.threshold, file.max_functions)


def profile_hot(path: Path, threshold: float | None, max_functions: int | None) -> tuple[HotSymbol, ...]:
    """Return the functions of a profile over a threshold, hottest first.

    The core types of the samples are those of the profiled board, which may differ from the board to build for.
    Args:
        threshold: in percent of the run; None for 5.
        max_functions: None for no limit.
    Raises: MavcgError if no function is over the threshold.
    """
    from mavcg.program.profiling.load import load_profile
    from mavcg.program.profiling.ranking import hot

    percent = DEFAULT_THRESHOLD_PERCENT if threshold is None else threshold
    if not 0 <= percent <= 100:
        raise MavcgError(f"--threshold {percent:g}: is not a share in percent; give 0 to 100, such as 5")
    if max_functions is not None and max_functions < 1:
        raise MavcgError(f"--max-functions {max_functions}: allows no version; give 1 or more")
    functions = hot(load_profile(path), percent / 100, max_functions)
    if not functions:
        raise MavcgError(f"{path}: no function of the program itself is over {percent:g} %; lower --threshold")
    return tuple(
        HotSymbol(f.symbol, share=f.share, named_by_user=False, why=f"{f.share:.1%} of the run", object=f.object)
        for f in functions
    )


def _limits(file: BuildFile) -> VersionLimits:
    for name, value in (("--max-growth", file.max_growth), ("--min-gain", file.min_gain)):
        if value is not None and not 0 <= value < float("inf"):
            raise MavcgError(f"{name} {value:g}: is not a percentage of 0 or more; correct it")
    min_gain = MIN_GAIN if file.min_gain is None else file.min_gain / 100
    by_model = not file.keep_slower
    levels = parse_levels(file.versions)
    if file.max_growth is None:
        return VersionLimits(min_gain, DEFAULT_MAX_GROWTH, DEFAULT_FREE_BYTES, by_model, levels)
    return VersionLimits(min_gain, file.max_growth, by_model=by_model, levels=levels)


def _gains(file: BuildFile, folder: Path) -> Gains:
    if not file.measurements:
        return {}
    from mavcg.program.measurements import read_measurements

    return read_measurements(folder / file.measurements)


def _per_core_rounding(file: BuildFile) -> bool:
    if file.rounding not in (None, "exact", "per-core"):
        raise MavcgError(f"--rounding {file.rounding}: is neither exact nor per-core; exact is right for most programs")
    return file.rounding == "per-core"


def merge(file: Table, options: Table) -> Table:
    """Return the file's settings with every given option in place of the file's value."""
    options_given = {name: value for name, value in options.__dict__.items() if value not in (None, ())}
    if options_given.get("cores"):
        file = replace(file, board=None)
    if options_given.get("board"):
        file = replace(file, cores=())
    return replace(file, **options_given)
