"""Options of `mavcg build MODEL --partial` as a PartialRequest: bad values are refused by name."""

from dataclasses import dataclass
from pathlib import Path

from mavcg.choose.bands.banded_range import ON
from mavcg.errors import MavcgError
from mavcg.importers.load import is_tflite
from mavcg.model.model_request import ModelRequest
from mavcg.model.precision import F32

DEFAULT_MIN_SHARE = 1.0  # percent: the call of a smaller subgraph costs more than it saves


@dataclass(frozen=True)
class PartialRequest:
    """Everything that a partial build depends on.

    build: as for a whole model. also: path of the ONNX model to write, which calls the library; None for a TFLite file,
    which stays unchanged. min_share: least share of the multiply-accumulates of a subgraph, 0 to 1.
    """

    build: ModelRequest
    also: Path | None
    min_share: float


def make_partial_request(
    build: ModelRequest, partial: bool, also: Path | None, min_share: float | None
) -> PartialRequest | None:
    """Return the request of a partial build; None for a whole build. min_share: in percent.

    Raises: MavcgError for options that need --partial, or do not fit.
    """
    if not partial:
        for option, value in (("--also", also), ("--min-share", min_share)):
            if value is not None:
                raise MavcgError(f"{option} {value}: applies to a partial build; add --partial")
        return None
    if build.aar is not None:
        raise MavcgError(
            f"--aar {build.aar}: packs whole models, whose header it holds; copy a partial library to the "
            "application's jniLibs folder, or leave out --partial"
        )
    if build.precision != F32:
        raise MavcgError(
            f"--precision {build.precision}: applies to whole models; leave it out, or leave out --partial"
        )
    if build.states:
        raise MavcgError(
            f"--state {build.states[0]}: applies to whole models, since the other runtime keeps no state between runs; "
            "leave it out, or leave out --partial"
        )
    if build.stored_weights:
        raise MavcgError(
            f"--weights {build.stored_weights}: applies to whole models; leave it out, or leave out --partial"
        )
    if build.depth_first == ON:
        raise MavcgError(f"--depth-first {ON}: applies to whole models; leave it out, or leave out --partial")
    share = DEFAULT_MIN_SHARE if min_share is None else min_share
    if not 0 <= share <= 100:
        raise MavcgError(f"--min-share {share:g}: give percent of the model's multiply-accumulates, 0 to 100")
    if is_tflite(build.model):
        if also is not None:
            raise MavcgError(f"--also {also}: applies to ONNX models; LiteRT's delegate uses the unchanged TFLite file")
        return PartialRequest(build, None, share / 100)
    if build.model.suffix.lower() != ".onnx":
        raise MavcgError(f"--partial: takes ONNX and TFLite models; {build.model} is neither")
    path = also if also is not None else build.output.with_name(f"{build.model.stem}.mavcg.onnx")
    if path.suffix.lower() != ".onnx":
        raise MavcgError(f"--also {path}: an ONNX model is written; name a file, such as {path.stem}.onnx")
    if path.resolve() == build.model.resolve():
        raise MavcgError(f"--also {path}: is the model itself, which would be replaced; name another file")
    if path.is_dir() or not path.resolve().parent.is_dir():
        raise MavcgError(f"--also {path}: is a folder, or its folder does not exist; name another file")
    return PartialRequest(build, path, share / 100)
