"""Turns the options of `mavcg build MODEL` into a ModelRequest: names resolved, every bad value named."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mavcg.assembly.tuning_options import parse_tuning
from mavcg.errors import MavcgError
from mavcg.hardware.board import Board
from mavcg.hardware.core import Core
from mavcg.hardware.target import Target, default_target, host_target, parse_target
from mavcg.hosts.host import HOST, find_board, measured_host_board
from mavcg.importers.load import is_tflite
from mavcg.model_pipeline.aar import check_aar
from mavcg.model_pipeline.model_request import MAX_ERROR, ModelRequest
from mavcg.model_pipeline.sizes import parse_shapes, parse_sizes
from mavcg.objects.bionic import check_soname
from mavcg.predict.depth_first import AUTO, OFF, ON
from mavcg.profiles.load import cores_for
from mavcg.selection.select_model import ENGINE
from mavcg.selection.strategies import PBQP
from mavcg.toolchain.codegen import default_workers

if TYPE_CHECKING:
    from mavcg.model_pipeline.partial import PartialRequest

MAX_THREADS = 256  # that a library is planned for; its contexts take up to 1024 (runtime/csrc/engine.h)
AUTO_THREADS = 0  # of a library: the fastest, as predicted


@dataclass(frozen=True)
class Selecting:
    """The options that say how primitives and layouts are selected; None and "" where they are not given."""

    strategy: str | None = None
    db: Path | None = None
    max_workspace: int | None = None
    max_size: str | None = None
    max_arena: str | None = None
    depth_first: str | None = None


def make_model_request(
    model: Path,
    output: str | None,
    board: str | None,
    cores: Sequence[str],
    target: str | None,
    shapes: Sequence[str] = (),
    threads: int = 1,
    jobs: int | None = None,
    tune: str | None = None,
    max_error: float | None = None,
    selecting: Selecting = Selecting(),
    weights: Path | None = None,
    aar: Path | None = None,
    several: bool = False,
) -> tuple[ModelRequest, Board | None]:
    """Return everything that a build of a model needs. several: shapes may name several sizes.

    Raises: MavcgError naming the option, its value and the remedy.
    """
    its_board = find_board(board) if board else None
    chosen = _cores(cores, its_board)
    its_target = _target(target, its_board, chosen)
    for core in chosen:
        if core.arch != its_target.arch:
            raise MavcgError(
                f"--cores {core.name}: is {core.arch}, and the target {its_target.zig_name} is not; "
                "name cores of one architecture, or another --target"
            )
    if its_target.system == "macos":
        raise MavcgError(
            f"--target {its_target.zig_name}: model libraries need the target's C library to link, and ziglang has "
            f"none for it; build for {its_target.arch}-linux-gnu or {its_target.arch}-linux-musl"
        )
    path = _output(output, model)
    if its_target.system == "linux-android":
        check_soname(path.name)
    if aar is not None:
        check_aar(aar, its_target, path)
    if threads == AUTO_THREADS:
        if its_board is None:
            raise MavcgError("--threads auto: what is fastest is predicted for a board; name one, or give a number")
    elif not 1 <= threads <= MAX_THREADS:
        raise MavcgError(f"--threads {threads}: give 1 to {MAX_THREADS}, or auto")
    if max_error is not None and not 0 <= max_error < 1:  # a NaN is not, either
        raise MavcgError(f"--max-error {max_error}: give 0 (sums by definition) to below 1, such as {MAX_ERROR}")
    strategy = selecting.strategy or (ENGINE if its_board is None else PBQP)
    if strategy == ENGINE:
        for option, value in (("--db", selecting.db), ("--max-workspace", selecting.max_workspace)):
            if value is not None:
                raise MavcgError(f"{option}: has no effect with --strategy {ENGINE}; give another, such as {PBQP}")
    elif its_board is None:
        raise MavcgError(f"--strategy {strategy}: costs are of a board; name one, or leave the choice to {ENGINE}")
    if board == HOST:  # with whatever strategy: what is selected and what the engine would take go by the same facts
        its_board = measured_host_board()
    sizes = parse_sizes(shapes) if several else (parse_shapes(shapes),)
    if len(sizes) > 1:
        _check_several(selecting)
    request = ModelRequest(
        model, path, its_target, chosen, sizes[0], threads, parse_tuning(tune),
        jobs or default_workers(), its_board, MAX_ERROR if max_error is None else max_error,
        strategy, selecting.db, selecting.max_workspace, parse_size(selecting.max_size),
        parse_size(selecting.max_arena, "--max-arena"), _depth_first(selecting.depth_first, its_board),
        weights=weights, aar=aar, sizes=sizes if len(sizes) > 1 else (),
    )  # fmt: skip
    return request, its_board


def _check_several(selecting: Selecting) -> None:
    """Raise MavcgError for an option that a library of several sizes does not take."""
    if selecting.depth_first == ON:
        raise MavcgError(f"--depth-first {ON}: is of a library of one size; leave it out, or name one size by --shape")


def _depth_first(text: str | None, board: Board | None) -> str:
    if text is not None and text not in (AUTO, ON, OFF):
        raise MavcgError(f"--depth-first {text}: give {AUTO} (where it pays), {ON} or {OFF}")
    if text == ON and board is None:
        raise MavcgError(f"--depth-first {ON}: which rows stay in a cache is predicted for a board; name a --board")
    return text or AUTO


DEFAULT_MIN_SHARE = 1.0  # percent: below that, calls cost more than they bring


def make_partial_request(
    build: ModelRequest, partial: bool, also: Path | None, min_share: float | None
) -> "PartialRequest | None":
    """Return everything that a partial build needs; None for a whole one. min_share: in percent.

    Raises: MavcgError for options that need --partial, or do not fit.
    """
    if not partial:
        for option, value in (("--also", also), ("--min-share", min_share)):
            if value is not None:
                raise MavcgError(f"{option} {value}: is of a partial build; add --partial")
        return None
    from mavcg.model_pipeline.partial import PartialRequest  # other formats and runtimes, which whole builds do without

    if build.aar is not None:
        raise MavcgError(
            f"--aar {build.aar}: packs whole models, whose header it holds; copy a partial library to the "
            "application's jniLibs folder, or leave out --partial"
        )
    if build.depth_first == ON:
        raise MavcgError(f"--depth-first {ON}: is of whole models; leave it out, or leave out --partial")
    share = DEFAULT_MIN_SHARE if min_share is None else min_share
    if not 0 <= share <= 100:
        raise MavcgError(f"--min-share {share:g}: give percent of the model's multiply-accumulates, 0 to 100")
    if is_tflite(build.model):
        if also is not None:
            raise MavcgError(f"--also {also}: is of ONNX models; LiteRT's delegate takes the TFLite file as it is")
        return PartialRequest(build, None, share / 100)
    if build.model.suffix.lower() != ".onnx":
        raise MavcgError(f"--partial: takes ONNX and TFLite models; {build.model} is neither")
    path = also if also is not None else build.output.with_name(f"{build.model.stem}.mavcg.onnx")
    if path.suffix.lower() != ".onnx":
        raise MavcgError(f"--also {path}: an ONNX model is written; name a file, such as {path.stem}.onnx")
    if path.resolve() == build.model.resolve():
        raise MavcgError(f"--also {path}: is the model itself, which would be replaced; name another file")
    if path.is_dir() or not path.resolve().parent.is_dir():
        raise MavcgError(f"--also {path}: is a folder, or its folder is not there; name another file")
    return PartialRequest(build, path, share / 100)


def parse_threads(text: str | None) -> int:
    """Return a number of threads, AUTO_THREADS for "auto", 1 without any. Raises: MavcgError for anything else."""
    if text is None:
        return 1
    if text == "auto":
        return AUTO_THREADS
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MAX_THREADS:
        raise MavcgError(f"--threads {text}: give 1 to {MAX_THREADS}, or auto")
    return int(text)


_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(B|kB|KB|MB|GB|KiB|MiB|GiB)?", re.ASCII)
_UNITS = {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def parse_size(text: str | None, option: str = "--max-size") -> int | None:
    """Return the bytes of "4000000", "4MB" or "3.8 MiB"; None for None. Raises: MavcgError, naming the option, for
    others."""
    if text is None:
        return None
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise MavcgError(f"{option} {text}: is no size; write it as in {option} 4000000 or {option} 4MB")
    return int(float(match[1]) * _UNITS[match[2] or "B"])


def _cores(names: Sequence[str], board: Board | None) -> tuple[Core, ...]:
    labels = [name for name in names if name != "generic"]
    if not labels and board is not None:
        labels = list(board.cores)
        if not labels:  # this machine, where no core is recognised: the generic version alone
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
        raise MavcgError(f"-o {path}: the folder {path.parent} is not there; make it, or name another output")
    return path


def identifier(text: str) -> str:
    """Return a C identifier near to the text, for names of functions and files."""
    word = re.sub(r"\W", "_", text, flags=re.ASCII) or "model"
    return word if not word[0].isdigit() else f"m_{word}"


def refuse_program_options(given: Mapping[str, object]) -> None:
    """Raise MavcgError for an option that says something about programs and is given with a model."""
    for option, value in given.items():
        if value:
            raise MavcgError(f"{option}: is for programs, not for models; leave it out, or build these separately")
