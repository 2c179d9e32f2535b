"""Options of `mavcg build MODEL` as a ModelRequest: names are resolved, bad values refused by name."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mavcg.assembly.tuning_options import parse_tuning
from mavcg.choose.algorithms.strategies import ENGINE, PBQP
from mavcg.choose.bands.banded_range import AUTO, OFF, ON
from mavcg.errors import MavcgError
from mavcg.hardware.board import HOST, Board
from mavcg.hardware.core import Core
from mavcg.hardware.feature_levels import parse_levels
from mavcg.hosts.host import find_board, measured_host_board
from mavcg.importers.declared_shapes import GivenShapes
from mavcg.model.aar import check_aar
from mavcg.model.calibration import RANDOM, parse_calibration
from mavcg.model.model_request import MAX_ERROR, MAX_HALF_ALGORITHM_ERROR, ModelRequest
from mavcg.model.precision import AUTO_PRECISION, F16, F32, MAX_HALF_ERROR, parse_precision
from mavcg.model.sizes import parse_bounds, parse_shapes, parse_sizes
from mavcg.model.weight_choice import STORED_TYPES
from mavcg.objects.library import check_soname
from mavcg.profiles.load import cores_for
from mavcg.text.byte_sizes import parse_bytes
from mavcg.toolchain.codegen import default_workers
from mavcg.toolchain.target import Target, default_target, host_target, parse_target

MAX_THREADS = 256  # default threads of a library; its contexts accept up to 1024 (runtime/csrc/engine.h)
AUTO_THREADS = 0  # the number of threads that is predicted to be fastest


@dataclass(frozen=True)
class SelectionOptions:
    """Options on the selection of primitives and layouts; None if not given."""

    strategy: str | None = None
    db: Path | None = None
    max_workspace: int | None = None
    max_size: str | None = None
    max_arena: str | None = None
    depth_first: str | None = None


@dataclass(frozen=True)
class ModelOptions:
    """Options of a model build as a user gives them, besides those on the selection; None if not given.

    cores, shapes, states: values of --cores, --shape and --state. several: shapes may name several sizes. bounded: a
    range in shapes is a bounded dimension.
    """

    board: str | None = None
    cores: Sequence[str] = ()
    target: str | None = None
    shapes: Sequence[str] = ()
    threads: int = 1
    jobs: int | None = None
    tune: str | None = None
    max_error: float | None = None
    weights: Path | None = None
    aar: Path | None = None
    several: bool = False
    bounded: bool = False
    precision: str | None = None
    calibrate: str | None = None
    stored_weights: str | None = None
    versions: str | None = None
    states: Sequence[str] = ()


def make_model_request(
    model: Path, output: str | None, options: ModelOptions, selection: SelectionOptions = SelectionOptions()
) -> tuple[ModelRequest, Board | None]:
    """Return the request of a model build, and its board.

    Raises: MavcgError naming the option, its value and the remedy.
    """
    board_facts = find_board(options.board) if options.board else None
    chosen = _cores(options.cores, board_facts)
    library_target = _target(options.target, board_facts, chosen)
    _check_target(library_target, chosen)
    path = _output(output, model)
    if library_target.system == "linux-android":
        check_soname(path.name)
    if options.aar is not None:
        check_aar(options.aar, library_target, path)
    _check_threads(options.threads, board_facts)
    if options.max_error is not None and not 0 <= options.max_error < 1:  # refuses NaN, too
        raise MavcgError(
            f"--max-error {options.max_error}: give 0 (sums by definition) to below 1, such as {MAX_ERROR}"
        )
    precision = parse_precision(options.precision, chosen)
    algorithm_error, half_error = options.max_error, None
    default_error = MAX_HALF_ALGORITHM_ERROR if precision == F16 else MAX_ERROR
    if precision == AUTO_PRECISION:  # the limit of the whole network's error; algorithms keep theirs
        algorithm_error, half_error = None, options.max_error
    calibration = parse_calibration(options.calibrate) if options.calibrate is not None else None
    if calibration is not None and precision == F32 and not options.stored_weights:
        raise MavcgError(
            f"--calibrate {options.calibrate}: no error is measured in {F32}; add --precision {F16} or {AUTO_PRECISION}"
        )
    if options.stored_weights and options.stored_weights not in STORED_TYPES:
        raise MavcgError(f"stored_weights = {options.stored_weights!r}: give {' or '.join(STORED_TYPES)}")
    strategy = _strategy(selection, board_facts)
    if options.board == HOST:  # for every strategy, so that selection and the engine's algorithms use the same facts
        board_facts = measured_host_board()
    bounds = parse_bounds(options.shapes) if options.bounded else None
    if bounds is not None:
        sizes: Sequence[Mapping[str, tuple[int, ...]]] = (bounds.longest(),)
        strategy = ENGINE
        _check_bounded(options, selection)
    else:
        sizes = parse_sizes(options.shapes) if options.several else (parse_shapes(options.shapes),)
    if len(sizes) > 1:
        _check_several(selection, options.states)
        if calibration is not None and calibration.folder is not None:
            raise MavcgError(
                f"--calibrate {calibration}: its inputs have one size, and the library several; name one size by "
                "--shape, or give seed:N"
            )
    request = ModelRequest(
        model,
        path,
        library_target,
        chosen,
        sizes[0],
        options.threads,
        parse_tuning(options.tune),
        options.jobs or default_workers(),
        board_facts,
        default_error if algorithm_error is None else algorithm_error,
        strategy,
        selection.db,
        selection.max_workspace,
        parse_size(selection.max_size),
        parse_size(selection.max_arena, "--max-arena"),
        _depth_first(selection.depth_first, board_facts),
        weights=options.weights,
        precision=precision,
        max_half_error=MAX_HALF_ERROR if half_error is None else half_error,
        calibration=RANDOM if calibration is None else calibration,
        stored_weights=options.stored_weights or "",
        aar=options.aar,
        sizes=tuple(sizes) if len(sizes) > 1 else (),
        levels=parse_levels(options.versions),
        states=tuple(options.states),
        bounds=bounds,
    )
    return request, board_facts


def without_declared_shapes(request: ModelRequest, ignore: bool) -> ModelRequest:
    """Return the request so that the import ignores shapes of tensors that the file declares, if `ignore` is True."""
    sizes = tuple(GivenShapes(size, ignore) for size in request.sizes)
    return replace(request, shapes=GivenShapes(request.shapes, ignore), sizes=sizes)


def _check_target(target: Target, cores: Sequence[Core]) -> None:
    """Raise MavcgError for a target whose architecture differs from a core's, or that cannot link a model library."""
    for core in cores:
        if core.arch != target.arch:
            raise MavcgError(
                f"--cores {core.name}: is {core.arch}, and the target {target.zig_name} is not; "
                "name cores of one architecture, or another --target"
            )
    if target.system == "macos":
        raise MavcgError(
            f"--target {target.zig_name}: model libraries need the target's C library to link, and ziglang has "
            f"none for it; build for {target.arch}-linux-gnu or {target.arch}-linux-musl"
        )


def _check_threads(threads: int, board: Board | None) -> None:
    if threads == AUTO_THREADS:
        if board is None:
            raise MavcgError(
                "--threads auto: the fastest number is predicted for a board; name a --board, or give a number"
            )
    elif not 1 <= threads <= MAX_THREADS:
        raise MavcgError(f"--threads {threads}: give 1 to {MAX_THREADS}, or auto")


def _strategy(selection: SelectionOptions, board: Board | None) -> str:
    """Return the strategy, by default "engine" without a board. Raises: MavcgError for options that do not fit it."""
    strategy = selection.strategy or (ENGINE if board is None else PBQP)
    if strategy == ENGINE:
        for option, value in (("--db", selection.db), ("--max-workspace", selection.max_workspace)):
            if value is not None:
                raise MavcgError(
                    f"{option}: has no effect with --strategy {ENGINE}; use another strategy, such as {PBQP}"
                )
    elif board is None:
        raise MavcgError(f"--strategy {strategy}: costs belong to a board; name a --board, or use {ENGINE}")
    return strategy


def _check_several(selection: SelectionOptions, states: Sequence[str]) -> None:
    """Raise MavcgError for an option that a library of several sizes does not support."""
    if states:
        raise MavcgError(
            f"--state {states[0]}: a state belongs to a context, and each size has its own; name one size by --shape"
        )
    if selection.depth_first == ON:
        raise MavcgError(
            f"--depth-first {ON}: applies to a library of one size; leave it out, or name one size by --shape"
        )


def _check_bounded(options: ModelOptions, selection: SelectionOptions) -> None:
    """Raise MavcgError for an option that a library with a bounded dimension does not support."""
    given = {
        "--strategy": selection.strategy if selection.strategy != ENGINE else None,
        "--db": selection.db,
        "--max-workspace": selection.max_workspace,
        "--max-size": selection.max_size,
        "--max-arena": selection.max_arena,
        "--depth-first": selection.depth_first if selection.depth_first == ON else None,
        "--precision": options.precision if options.precision == AUTO_PRECISION else None,
        "--weights": options.stored_weights,
        "--calibrate": options.calibrate,
    }
    for option, value in given.items():
        if value:
            raise MavcgError(
                f"{option} {value}: does not apply to a bounded dimension (--shape {' '.join(options.shapes)}); leave "
                "it out, or give a list of lengths, as 1,4,8, for a size of each"
            )


def _depth_first(text: str | None, board: Board | None) -> str:
    if text is not None and text not in (AUTO, ON, OFF):
        raise MavcgError(f"--depth-first {text}: give {AUTO} (where it pays), {ON} or {OFF}")
    if text == ON and board is None:
        raise MavcgError(f"--depth-first {ON}: which rows stay in a cache is predicted for a board; name a --board")
    return text or AUTO


def parse_threads(text: str | None) -> int:
    """Parse a number of threads: AUTO_THREADS for "auto", 1 for None. Raises: MavcgError for anything else."""
    if text is None:
        return 1
    if text == "auto":
        return AUTO_THREADS
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MAX_THREADS:
        raise MavcgError(f"--threads {text}: give 1 to {MAX_THREADS}, or auto")
    return int(text)


def parse_size(text: str | None, option: str = "--max-size") -> int | None:
    """Return the bytes of "4000000", "4MB" or "3.8 MiB"; None for None. Raises: MavcgError naming the option."""
    if text is None:
        return None
    size = parse_bytes(text)
    if size is None:
        raise MavcgError(f"{option} {text}: is not a size; write it as in {option} 4000000 or {option} 4MB")
    return size


def _cores(names: Sequence[str], board: Board | None) -> tuple[Core, ...]:
    labels = [name for name in names if name != "generic"]
    if not labels and board is not None:
        labels = list(board.cores)
        if not labels:  # this machine without a recognised core: only the generic version
            return ()
    if not labels and not names:
        raise MavcgError(
            "build: no cores are named; give --board NAME, --board host or --cores A,B,.. (`mavcg cores` lists both)"
        )
    return cores_for(list(dict.fromkeys(labels))) if labels else ()


def _target(target: str | None, board: Board | None, cores: Sequence[Core]) -> Target:
    if target:
        return parse_target(target)
    if board:
        return parse_target(board.target)
    return default_target(cores[0].arch) if cores else host_target()


def _output(output: str | None, model: Path) -> Path:
    path = Path(output) if output else Path(f"lib{identifier(model.stem)}.so")
    if path.suffix != ".so":
        raise MavcgError(f"-o {path}: a model becomes a shared library; name one, such as -o lib{model.stem}.so")
    if path.is_dir():
        raise MavcgError(f"-o {path}: is a folder; name a file in it")
    if not path.parent.is_dir():
        raise MavcgError(f"-o {path}: the folder {path.parent} does not exist; create it, or name another output")
    return path


def identifier(text: str) -> str:
    """Return a C identifier close to the text, for names of functions and files."""
    word = re.sub(r"\W", "_", text, flags=re.ASCII) or "model"
    return word if not word[0].isdigit() else f"m_{word}"


def refuse_program_options(options: Mapping[str, object]) -> None:
    """Raise MavcgError for a program option that is given with a model."""
    for option, value in options.items():
        if value:
            raise MavcgError(f"{option}: is for programs, not for models; leave it out, or build these separately")
