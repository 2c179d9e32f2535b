"""Real models against onnxruntime or LiteRT: `python -m bench.model_accuracy [MODEL ...] [--json]`.

Each model is built for this machine and run on the seeded inputs of bench/worker.py. f32: the largest difference over
the largest element of the reference, and whether the five largest elements are the same in order. 8-bit: the largest
difference in quanta of the output, and whether the largest element is the same. The models of the onnx package are
also run with the weights and inputs that they ship with, against the outputs that they ship with. Without names it
takes all of bench.models.PREPARED and writes bench/results/model_accuracy.json.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

import mavcg
from bench.host_library import build_for_host
from bench.models import LIGHT, MODELS, PREPARED, expected_output, light_input, model_path, shapes_of
from bench.record import facts, write
from bench.runners import Runner, litert_runner, onnxruntime_runner
from bench.tables.markdown import table
from bench.worker import seeded_inputs
from mavcg.errors import MavcgError
from mavcg.graph import Array

MOST_RELATIVE = 1e-4  # of f32 outputs, to the largest element
MOST_QUANTA = 1.0  # of 8-bit models' outputs


@dataclass(frozen=True)
class Row:
    """The result of a model.

    against: the reference. error: the largest difference of any output, in `unit` ("of the largest" or "quanta"). top:
    True if the largest elements are the same (five; one for 8-bit models); None if that means nothing. ok: within the
    bounds. why: what went wrong, or "". reference_apart: for 8-bit models, quanta between onnxruntime with all its
    optimisations, which is the reference, and without: if layers amplify differences in rounding, no implementation is
    near to both.
    """

    model: str
    against: str
    error: float | None = None
    unit: str = ""
    top: bool | None = None
    ok: bool = False
    why: str = ""
    reference_apart: float | None = None


def build(model: Path, shapes: dict[str, tuple[int, ...]], folder: Path) -> Path:
    """Build the model's library for this machine."""
    texts = [f"{name}={'x'.join(map(str, dims))}" for name, dims in shapes.items()]
    return build_for_host(model, folder / "libmodel.so", texts)


def outputs_of(library: Path, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """Return the outputs of one run of a library."""
    with mavcg.load(library) as model:
        return model.run(*arrays)


def relative_error(outputs: Sequence[Array], expected: Sequence[Array]) -> float:
    """Return the largest difference over the largest element of the same output.

    It is inf if shapes differ or a value is not finite.
    """
    worst = 0.0
    for ours, theirs in zip(outputs, expected, strict=True):
        if ours.shape != theirs.shape or not np.isfinite(ours).all():
            return float("inf")
        largest = float(np.abs(theirs.astype(np.float64)).max()) or 1.0
        worst = max(worst, float(np.abs(ours.astype(np.float64) - theirs).max()) / largest)
    return worst


def largest_difference(outputs: Sequence[Array], expected: Sequence[Array]) -> float:
    """Return the largest difference of any element of any output."""
    return max(float(np.abs(a.astype(np.float64) - b).max()) for a, b in zip(outputs, expected, strict=True))


def same_top(outputs: Sequence[Array], expected: Sequence[Array], count: int) -> bool:
    """True if the indices of the first output's largest elements are the same, in order."""
    ours, theirs = (
        np.argsort(-a[0].reshape(-1).astype(np.float64), kind="stable")[:count] for a in (outputs, expected)
    )
    return bool((ours == theirs).all())


def quantum_of(model: Path) -> float | None:
    """Return the step of an 8-bit ONNX model's first output; None if it is not quantised."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(model).graph
    node = next((n for n in graph.node if graph.output[0].name in n.output), None)
    if node is None or node.op_type != "DequantizeLinear":
        return None
    scale = next(t for t in graph.initializer if t.name == node.input[1])
    return float(numpy_helper.to_array(scale))


def reference(model: Path, shapes: dict[str, tuple[int, ...]]) -> tuple[Runner, str]:
    """Return a loaded runtime for the file, and its name; free dimensions are set as given."""
    if model.suffix == ".tflite":
        return litert_runner(model, 1), f"ai-edge-litert {version('ai-edge-litert')}"
    runner = onnxruntime_runner(model, 1)
    if shapes:
        fixed = [(dims, dtype) for dims, (_, dtype) in zip(shapes.values(), runner.inputs, strict=True)]
        runner = Runner(runner.version, fixed, runner.outputs, runner.run)
    return runner, f"onnxruntime {version('onnxruntime')}"


def unoptimised(model: Path, arrays: Sequence[Array]) -> list[Array]:
    """Return a call that runs an ONNX file in onnxruntime operator by operator, without its optimisations."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, {i.name: a for i, a in zip(session.get_inputs(), arrays, strict=True)}))


def check(name: str) -> Row:
    """Return the row of one model on seeded inputs against its reference."""
    with tempfile.TemporaryDirectory() as folder:
        return check_library(name, build(model_path(name), shapes_of(name), Path(folder)))


def check_library(name: str, library: Path) -> Row:
    """Check the library of a model as check does."""
    path, shapes = model_path(name), shapes_of(name)
    runner, against = reference(path, shapes)
    arrays = seeded_inputs(runner)
    expected = runner.run(arrays)
    outputs = outputs_of(library, arrays)
    if name.endswith("-int8"):
        # Where the last operator is not quantised: of the range that 8 bits would divide.
        quantum = quantum_of(path) or float(np.ptp(expected[0])) / 255
        top, quanta = same_top(outputs, expected, 1), largest_difference(outputs, expected) / quantum
        difference = largest_difference(unoptimised(path, arrays), expected) / quantum
        within = quanta <= MOST_QUANTA * 1.001  # scales are f32, and so is what is divided by them
        why = "" if within else f"onnxruntime without its optimisations is {difference:.0f} quanta from itself"
        return Row(name, against, quanta, "quanta", top, within and top, why, difference)
    error, top = relative_error(outputs, expected), same_top(outputs, expected, 5)
    return Row(name, against, error, "of the largest", top, error <= MOST_RELATIVE and top)


def check_shipped(name: str) -> Row:
    """Return the row of a light model with its own weights, input and expected output.

    Equal classes say nothing about order.
    """
    path = model_path(name)
    with tempfile.TemporaryDirectory() as folder:
        library = build(path, {}, Path(folder))
        with mavcg.load(library) as model:
            outputs = model.run(light_input(model.inputs[0].shape))
    error = relative_error(outputs, [expected_output(name)])
    return Row(name, "the output that it ships with", error, "of the largest", None, error <= MOST_RELATIVE)


def check_any(name: str) -> Row:
    """Check a model by check or check_shipped; one that cannot be downloaded or built gives a row with the reason."""
    try:
        return check_shipped(name) if name in LIGHT else check(name)
    except (MavcgError, RuntimeError, ValueError) as error:
        return Row(name, "", why=str(error).splitlines()[0][:300])


def show(rows: Sequence[Row]) -> str:
    """Print the table."""
    cells = [
        [
            row.model,
            row.against,
            "-" if row.error is None else f"{row.error:.2g} {row.unit}",
            {True: "same", False: "differ", None: "-"}[row.top],
            "yes" if row.ok else f"NO {row.why}",
        ]
        for row in rows
    ]
    return table(["model", "against", "largest difference", "top 5 (8-bit: top 1)", "within bounds"], cells)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.model_accuracy", description="Real models, checked.")
    parser.add_argument("names", nargs="*", metavar="MODEL", help=f"of {', '.join(MODELS)}, ..; all where none")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    arguments = parser.parse_args()
    rows = []
    for name in arguments.names or PREPARED:
        rows.append(check_any(name))
        print(json.dumps(asdict(rows[-1])), file=sys.stderr)
    if not arguments.names:
        bounds = {"f32_of_the_largest": MOST_RELATIVE, "int8_quanta": MOST_QUANTA}
        record = facts("measured", "bench.model_accuracy") | {"bounds": bounds, "rows": [*map(asdict, rows)]}
        write("model_accuracy", record)
    print(json.dumps([asdict(row) for row in rows], indent=2) if arguments.json else show(rows))
    sys.exit(0 if all(row.ok for row in rows) else 1)


if __name__ == "__main__":
    main()
