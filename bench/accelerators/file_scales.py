"""Steps from an accelerator's 8-bit results to onnxruntime's: `python -m bench.accelerators.file_scales [MODEL ..]`.

For each 8-bit ONNX file, whose scales are kept (--file-scales): in how many outputs the reference differs from
onnxruntime's, and by how many steps at most; and the same between onnxruntime with its optimisations, which compute
operators on integers, and without, which compute them in f32. Inputs are random images.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.models import model_path
from bench.record import parser_with_json
from mavcg.accelerators.fixed_point import evaluate, reals_of
from mavcg.accelerators.float_reference import arrange_inputs
from mavcg.accelerators.load import xgraph_of
from mavcg.accelerators.validate import integer_images
from mavcg.console.output import print_json
from mavcg.graph import Array
from mavcg.importers.load import import_model

MODELS = ("mobilenet_v2-int8", "efficientnet_lite0-int8", "squeezenet-random-int8")


@dataclass(frozen=True)
class StepDifference:
    """Two results of a model on several images. share: of outputs that differ. most: steps between two at most."""

    model: str
    pair: str
    share: float
    most: int


def differences(model: str, images: int) -> Iterator[StepDifference]:
    """Yield the differences of a model: of the accelerator from each onnxruntime, and of these from each other."""
    import onnxruntime as runtime

    path, levels = model_path(model), runtime.GraphOptimizationLevel
    sessions = {}
    for name, level in (("onnxruntime", levels.ORT_ENABLE_ALL), ("unoptimised", levels.ORT_DISABLE_ALL)):
        options = runtime.SessionOptions()
        options.graph_optimization_level = level
        sessions[name] = runtime.InferenceSession(str(path), options)
    given = sessions["onnxruntime"].get_inputs()[0]
    shape = tuple(n if isinstance(n, int) else 1 for n in given.shape)
    graph = xgraph_of(import_model(path, {given.name: shape}), file_scales=True)
    output = graph.model_outputs[0]
    node = graph.by_name()[output.tensor]
    made: dict[str, list[Array]] = {name: [] for name in ("accelerator", *sessions)}
    for seed in range(images):
        x = np.random.default_rng(seed).standard_normal(shape, np.float32)
        arranged = integer_images(graph, arrange_inputs(graph, {given.name: x}))
        value = evaluate(graph, arranged, "half_up")[node.name]
        made["accelerator"].append(output.in_its_order(value if node.radix is None else reals_of(node, value)))
        for name, session in sessions.items():
            made[name].append(session.run(None, {given.name: x})[0])
    scale = node.scale or _step(np.stack(made["onnxruntime"]))
    for one, other in (("accelerator", "onnxruntime"), ("accelerator", "unoptimised"), ("onnxruntime", "unoptimised")):
        steps = np.abs(np.rint((np.stack(made[one]) - np.stack(made[other])) / scale))
        yield StepDifference(model, f"{one}, {other}", float((steps != 0).mean()), int(steps.max()))


def _step(values: Array) -> float:
    """Return the distance of 8-bit values whose scale is not known."""
    gaps = np.diff(np.unique(values))
    return float(gaps[gaps > gaps.max() * 1e-3].min())


def main() -> None:
    """Print the differences of each model, or all rows as JSON."""
    parser = parser_with_json(__doc__, "the rows")
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--images", type=int, default=2, help="random images of each model; default 2")
    options: Any = parser.parse_args()
    rows = [row for model in options.models for row in differences(model, options.images)]
    if options.json:
        print_json([vars(row) for row in rows])
        return
    table = Table(box=None, pad_edge=False)
    for name in ("model", "results of"):
        table.add_column(name, no_wrap=True)
    for name in ("outputs that differ", "steps at most"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(row.model, row.pair, f"{100 * row.share:.1f} %", str(row.most))
    Console().print(table)


if __name__ == "__main__":
    main()
