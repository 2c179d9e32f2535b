"""Sort the options of `mavcg build` by the kind of build that takes them, and turn them into tables of a mavcg.toml."""

from pathlib import Path
from typing import TYPE_CHECKING

from mavcg.cli.build_options import BuildOptions
from mavcg.console.shared_options import input_from_here, names_of_option, path_from_here, paths_from_here
from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from mavcg.model.request import ModelOptions, SelectionOptions
    from mavcg.program.buildfile import BuildFile, ModelTable


def program_options(options: BuildOptions) -> dict[str, object]:
    """Return the values of the options that only builds of programs take, by option."""
    return {
        "--source": options.source,
        "--ir": options.ir,
        "--compile-commands": options.compile_commands,
        "--only-hot": options.only_hot,
        "--query-driver": options.query_driver,
        "--flag": options.flag,
        "--compiler": options.compiler,
        "--hot": options.hot,
        "--profile": options.profile,
        "--threshold": options.threshold,
        "--max-functions": options.max_functions,
        "--measurements": options.measurements,
        "--min-gain": options.min_gain,
        "--max-growth": options.max_growth,
        "--rounding": options.rounding,
        "--keep-slower": options.keep_slower,
        "--link-option": options.link_option,
        "--version-script": options.version_script,
        "--library": options.library,
        "--library-dir": options.library_dir,
        "--soname": options.soname,
        "--runtime": options.runtime,
    }


STORED_TYPES = ("f16", "bf16")  # as in mavcg.model.weight_choice, whose import takes longer than a command's start


def split_weights(options: BuildOptions) -> tuple[Path | None, str | None]:
    """Return (the file, the type in memory) that --weights names; None for what it does not name.

    Raises: MavcgError for two files and for two types.
    """
    types = [value for value in options.weights or () if value in STORED_TYPES]
    files = [value for value in options.weights or () if value not in STORED_TYPES]
    for values in (types, files):
        if len(values) > 1:
            raise MavcgError(f"--weights {values[1]}: is given beside {values[0]}; name one file and one type at most")
    return Path(files[0]) if files else None, types[0] if types else None


def model_options(options: BuildOptions) -> dict[str, object]:
    """Return the values of the options that only builds of models take, by option; None where it was not given."""
    return {
        "--shape": options.shape,
        "--state": options.state,
        "--weights": options.weights,
        "--threads": options.threads,
        "--max-error": options.max_error,
        "--precision": options.precision,
        "--calibrate": options.calibrate,
        "--strategy": options.strategy,
        "--db": options.db,
        "--max-workspace": options.max_workspace,
        "--max-size": options.max_size,
        "--max-arena": options.max_arena,
        "--depth-first": options.depth_first,
        "--partial": options.partial or None,
        "--also": options.also,
        "--min-share": options.min_share,
        "--aar": options.aar,
        "--ignore-declared-shapes": options.ignore_declared_shapes or None,
    }


def single_library_options(options: BuildOptions) -> dict[str, object]:
    """Return the values of the options that a build for several boards does not take, by option."""
    return program_options(options) | {
        "--board": options.board,
        "--cores": options.cores,
        "--partial": options.partial,
        "--also": options.also,
        "--min-share": options.min_share,
        "--weights": split_weights(options)[0],
        "--aar": options.aar,
        "--simulate-unsure": options.simulate_unsure,
        "--calibrate": options.calibrate,
    }


def library_options(options: BuildOptions) -> "ModelOptions":
    """Return the options of a model's library, besides those on the selection. Raises: MavcgError for bad values."""
    from mavcg.model.request import ModelOptions, parse_threads

    weights, stored = split_weights(options)
    return ModelOptions(
        board=options.board,
        cores=names_of_option(options.cores),
        target=options.target,
        shapes=options.shape or (),
        states=options.state or (),
        threads=parse_threads(options.threads),
        jobs=options.jobs,
        tune=options.tune,
        max_error=options.max_error,
        precision=options.precision,
        calibrate=options.calibrate,
        weights=weights,
        stored_weights=stored,
        versions=options.versions,
        aar=options.aar,
    )


def selection_options(options: BuildOptions) -> "SelectionOptions":
    """Return the options about the choice of primitives and layouts."""
    from mavcg.model.request import SelectionOptions

    return SelectionOptions(
        options.strategy, options.db, options.max_workspace, options.max_size, options.max_arena, options.depth_first
    )


def build_table(options: BuildOptions) -> "BuildFile":
    """Return the [build] table that the options amount to; its paths are absolute."""
    from mavcg.program.buildfile import BuildFile

    return BuildFile(
        output=path_from_here(options.output),
        sources=paths_from_here(options.source),
        ir=paths_from_here(options.ir),
        compile_commands=path_from_here(options.compile_commands),
        flags=tuple(options.flag or ()),
        compiler=options.compiler,
        hot=(options.hot,) if options.hot is not None else (),
        profile=path_from_here(options.profile),
        threshold=options.threshold,
        only_hot=options.only_hot or None,
        max_functions=options.max_functions,
        cores=names_of_option(options.cores),
        board=options.board,
        target=options.target,
        measurements=path_from_here(options.measurements),
        min_gain=options.min_gain,
        max_growth=options.max_growth,
        rounding=options.rounding,
        max_seconds=options.max_seconds,
        max_memory=options.max_memory,
        tune=options.tune,
        versions=options.versions,
        keep_slower=options.keep_slower or None,
        query_driver=tuple(options.query_driver or ()),
        link_options=tuple(input_from_here(option) for option in options.link_option or ()),
        version_script=path_from_here(options.version_script),
        libraries=tuple(options.library or ()),
        library_dirs=paths_from_here(options.library_dir),
        soname=options.soname,
        strip=options.strip or None,
        runtime=options.runtime,
    )


def calibration_in(folder: Path, text: str | None) -> str | None:
    """Return a value of --calibrate, which is "seed:N" or a path; a relative path is one in this folder."""
    return text if text is None or text.partition(":")[0] == "seed" else str(folder / text)


def model_table(options: BuildOptions) -> "ModelTable":
    """Return the [[model]] table that the options amount to, without a model's file; its paths are absolute."""
    from mavcg.program.buildfile import ModelTable

    def absolute(path: Path | None) -> str | None:
        return path_from_here(str(path) if path else None)

    weights, stored = split_weights(options)
    return ModelTable(
        "",
        output=path_from_here(options.output),
        board=options.board,
        cores=names_of_option(options.cores),
        target=options.target,
        shapes=tuple(options.shape or ()),
        states=tuple(options.state or ()),
        threads=options.threads,
        tune=options.tune,
        max_error=options.max_error,
        precision=options.precision,
        calibrate=calibration_in(Path.cwd(), options.calibrate),
        strategy=options.strategy,
        db=absolute(options.db),
        max_workspace=options.max_workspace,
        max_size=options.max_size,
        max_arena=options.max_arena,
        depth_first=options.depth_first,
        max_seconds=options.max_seconds,
        max_memory=options.max_memory,
        weights=absolute(weights),
        stored_weights=stored,
        strip=options.strip or None,
        partial=options.partial or None,
        also=absolute(options.also),
        min_share=options.min_share,
        versions=options.versions,
        ignore_declared_shapes=options.ignore_declared_shapes or None,
    )
