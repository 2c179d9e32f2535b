"""Share of real networks' convolutions on an accelerator: `python -m bench.accelerators.accel_share [MODEL ..]`.

For each network: the operations of its convolutions, the share that the accelerator computes, the segments of its
program, and the operators that are left to the CPU. With --validate each is also built by the default search and
compared with the fixed-point reference, tile by tile, which takes minutes for a network.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.models import model_path, shapes_of
from bench.record import parser_with_json
from bench.wheels import cache_folder, file_of_wheel
from mavcg.accelerators.build import ProgramRequest, build_program
from mavcg.accelerators.codegen.division import divide
from mavcg.accelerators.images import seeded_images
from mavcg.accelerators.load import xgraph_of
from mavcg.accelerators.target import find_target
from mavcg.accelerators.validate import validate_program
from mavcg.accelerators.xgraph import accelerator_share
from mavcg.files.whole_file import write_whole
from mavcg.importers.load import import_model


@dataclass(frozen=True)
class WheelModel:
    """A model's file in a wheel, with the shapes of its free dimensions."""

    package: str
    member: str
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


WHEELS = {
    "selfie_segmentation": WheelModel("mediapipe==0.10.14", "selfie_segmentation/selfie_segmentation.tflite"),
    "ppocr_det": WheelModel("rapidocr-onnxruntime==1.4.4", "ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 640, 640)}),
}
NETWORKS = (
    "alexnet-random",
    "zfnet512-random",
    "vgg19-random",
    "squeezenet-random",
    "inception_v1-random",
    "inception_v2-random",
    "resnet50-random",
    "densenet121-random",
    "shufflenet-random",
    "mobilenet_v1-random",
    "mobilenet_v2",
    "blazeface",
    "face_landmark",
    "hand_landmark",
    "ppocr_det",
    "selfie_segmentation",
)


def file_and_shapes(name: str) -> tuple[Path, Mapping[str, tuple[int, ...]]]:
    """Return a network's file, downloaded if missing, and its free shapes. Raises: MavcgError if it cannot be had."""
    if name not in WHEELS:
        return model_path(name), shapes_of(name)
    shipped = WHEELS[name]
    path = cache_folder() / f"{name}{Path(shipped.member).suffix}"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, file_of_wheel(shipped.package, shipped.member))
    return path, shipped.shapes


def row(name: str, target_name: str, validated: bool) -> dict[str, Any]:
    """Return a network's row: counts of its graph and, if asked for, of its validated program."""
    target, (path, shapes) = find_target(target_name), file_and_shapes(name)
    graph = xgraph_of(import_model(path, shapes), target.dense == "cpu")
    division = divide(graph)
    hosts = Counter(node.op for node in graph.nodes if node.kind == "host")
    entry: dict[str, Any] = {
        "network": name,
        "nodes": sum(node.kind != "input" for node in graph.nodes),
        "accelerator_share": accelerator_share(graph),
        "segments": len(division.segments),
        "cpu": dict(sorted(hosts.items())),
    }
    if validated:
        request = ProgramRequest(str(path), target, "exact", shapes=shapes)
        built = build_program(request, lambda message: None)
        compared = validate_program(built.program, built.graph, seeded_images(built.graph, 1, 0)[0])
        entry |= {"layers": compared.layers, "mismatches": len(compared.differences)}
        entry["predicted_cycles"] = built.time.cycles
    return entry


def main() -> None:
    """Count, print."""
    parser = parser_with_json(__doc__, "the rows instead of a table")
    parser.add_argument("models", nargs="*", help=f"of {', '.join(NETWORKS)}, or others of bench.models; default: all")
    parser.add_argument("--target", default="zu2", help="the accelerator; default zu2")
    parser.add_argument("--validate", action="store_true", help="build each by the default search, and compare")
    args = parser.parse_args()
    rows = [row(name, args.target, args.validate) for name in args.models or NETWORKS]
    if args.json:
        print(json.dumps(rows, indent=2))
        return
    table = Table(title=f"Convolutions on {args.target}", box=None, title_justify="left")
    titles = ["network", "nodes", "share, %", "segments", "left to the CPU"] + ["layers", "differ"] * args.validate
    for title in titles:
        table.add_column(title, justify="left" if title in ("network", "left to the CPU") else "right")
    for one in rows:
        cpu = ", ".join(f"{count} {op}" for op, count in one["cpu"].items())
        shown = [one["network"], str(one["nodes"]), f"{100 * one['accelerator_share']:.1f}", str(one["segments"]), cpu]
        table.add_row(*shown, *([str(one["layers"]), str(one["mismatches"])] if args.validate else []))
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
