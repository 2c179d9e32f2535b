"""The time of each layer of a network, by mavcg and by the runtimes that report layers.

Runtimes fuse operators, and name the result after the file's node or after the tensor that the last fused node makes.
Therefore times are added up by anchors: a convolution, product or pool, with all operators that only change its result
element by element. A conversion of layouts has a line of its own, and so have layers without a known anchor: OpenVINO
gives new names to convolutions into which it folds batch norms.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.interleaved import bound, start
from bench.peer_models import peers_python, prepared
from mavcg.errors import MavcgError

SAY_LAYERS = ("mavcg", "onnxruntime", "openvino")
ROUNDS, RUNS = 6, 5
FOLLOWERS = frozenset(
    {
        "Add",
        "BatchNormalization",
        "Clip",
        "DequantizeLinear",
        "Dropout",
        "Flatten",
        "Identity",
        "Mul",
        "QuantizeLinear",
        "Relu",
        "Reshape",
        "Squeeze",
        "Sum",
        "Unsqueeze",
    }
)
OTHER = "layouts and the rest"


@dataclass(frozen=True)
class Anchors:
    """Points of a file at which the runtimes' layers are compared.

    where: the anchor of each node and tensor, by name. what: a description of each anchor, in order.
    """

    where: Mapping[str, str]
    what: Mapping[str, str]


def anchors_of(model: Path) -> Anchors:
    """Return the anchors of an ONNX file whose shapes are all known."""
    import onnx

    graph = onnx.shape_inference.infer_shapes(onnx.load(model)).graph
    shapes = {
        info.name: tuple(d.dim_value for d in info.type.tensor_type.shape.dim)
        for info in (*graph.value_info, *graph.output, *graph.input)
    } | {t.name: tuple(t.dims) for t in graph.initializer}
    constants = {t.name for t in graph.initializer}
    where: dict[str, str] = {}
    what: dict[str, str] = {}
    for number, node in enumerate(graph.node):
        if not node.input:
            continue  # a constant
        name = node.name or f"n{number}"
        data = [source for source in node.input if source in where]
        if node.op_type in FOLLOWERS and data:
            anchor = max((where[source] for source in data), key=list(what).index)  # a sum is fused into the later one
        elif node.op_type in FOLLOWERS and all(source in constants for source in node.input):
            continue  # weights
        else:
            anchor = name
            what[name] = _words(node, shapes)
        where[name] = anchor
        where |= {target: anchor for target in node.output}
    return Anchors(where, what)


def _words(node: Any, shapes: Mapping[str, tuple[int, ...]]) -> str:
    attributes = {a.name: a for a in node.attribute}
    kernel = "x".join(map(str, attributes["kernel_shape"].ints)) if "kernel_shape" in attributes else ""
    stride = (
        f"/{attributes['strides'].ints[0]}" if "strides" in attributes and attributes["strides"].ints[0] > 1 else ""
    )
    groups = f" groups {attributes['group'].i}" if "group" in attributes and attributes["group"].i > 1 else ""
    source, target = (shapes.get(names[0], ()) for names in (node.input, node.output))
    sizes = f"{'x'.join(map(str, source[1:]))} -> {'x'.join(map(str, target[1:]))}"
    return " ".join(filter(None, [node.op_type, f"{kernel}{stride}{groups}", sizes]))


def anchor_of(layer: str, where: Mapping[str, str]) -> str:
    """Return the anchor of a runtime's layer, by its name; OTHER for layout changes and for unknown layers."""
    plain = re.sub(r"^fused |(_nchwc|/WithoutBiases.*|_token_\d+)$", "", layer)
    return where.get(layer) or where.get(plain) or OTHER


def by_anchor(layers: Sequence[Mapping[str, Any]], anchors: Anchors) -> dict[str, float]:
    """Return the ms of each anchor."""
    ms_of: dict[str, float] = {}
    for layer in layers:
        anchor = anchor_of(layer["name"], anchors.where)
        ms_of[anchor] = ms_of.get(anchor, 0.0) + layer["ms"]
    return ms_of


def measured(name: str, threads: int) -> list[dict[str, Any]]:
    """Return the network's anchors in order: {"layer", "what", "ms": {runtime.

    Ms}}, the least of several interleaved rounds. Raises: MavcgError if the model is not an ONNX file.
    """
    ready = prepared(name, SAY_LAYERS)
    if "onnxruntime" not in ready.files:
        raise MavcgError(f"--layers {name}: {ready.reasons['onnxruntime']}; ONNX models can be shown by layers")
    anchors = anchors_of(ready.files["onnxruntime"])
    workers = []
    best: dict[str, dict[str, float]] = {}
    try:
        for runtime, file in ready.files.items():
            python = sys.executable if runtime == "mavcg" else str(peers_python())
            workers.append(start(runtime, file, threads, python, profile=True))
        for number in range(ROUNDS):
            bound(workers, number)
            for worker in workers:
                times = by_anchor(worker.ask(f"layers {RUNS}")["layers"], anchors)
                known = best.setdefault(worker.runtime, times)
                for anchor, ms in times.items():
                    known[anchor] = min(ms, known.get(anchor, ms))
    finally:
        for worker in workers:
            worker.end()
    return [
        {"layer": anchor, "what": what, "ms": {r: round(ms[anchor], 4) for r, ms in best.items() if anchor in ms}}
        for anchor, what in {**anchors.what, OTHER: ""}.items()
    ]


def layers_of(name: str, threads: int, as_json: bool) -> None:
    """Print the layers; those where mavcg takes longer than the fastest other runtime have a mark."""
    rows = measured(name, threads)
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    table = Table(box=None)
    for number, title in enumerate(("layer", "", *(f"{runtime} ms" for runtime in SAY_LAYERS), "lost ms")):
        table.add_column(title, justify="left" if number < 2 else "right")
    totals = dict.fromkeys(SAY_LAYERS, 0.0)
    for row in rows:
        ms = row["ms"]
        for runtime, layer_ms in ms.items():
            totals[runtime] += layer_ms
        others = [layer_ms for runtime, layer_ms in ms.items() if runtime != "mavcg"]
        lost = ms["mavcg"] - min(others) if "mavcg" in ms and others else 0.0
        shown = [f"{ms[runtime]:.3f}" if runtime in ms else "" for runtime in SAY_LAYERS]
        table.add_row(row["layer"], row["what"], *shown, f"{lost:.3f}" if lost > 0 else "")
    table.add_row("sum", "", *(f"{totals[runtime]:.3f}" for runtime in SAY_LAYERS))
    Console(width=180).print(table)
