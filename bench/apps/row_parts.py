"""Buffers of networks by four methods: `python -m bench.apps.row_parts [--json]`.

Each edge its own and Algorithm 8 (Minakova's thesis, chapter 6), offsets in one arena layer by layer, and computed by
parts of rows in the least memory that is found. Bytes of f32 activations are counted; weights are beside them.
"""

import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from bench.record import facts, parser_with_json, write
from mavcg.accelerators.networks import mobilenet_v2, resnet50, with_seeded_weights, yolo_small
from mavcg.apps.application import Application, sequential
from mavcg.apps.buffers import edge_data, naive_buffers, reuse_buffers, total_size
from mavcg.apps.model_network import network_of
from mavcg.choose.limits.arena_limit import ArenaTooLargeError, first_within
from mavcg.choose.lowering.image_rows import with_image_rows
from mavcg.choose.lowering.lower import lower_graph
from mavcg.choose.lowering.row_phases import divide_rows
from mavcg.choose.lowering.step_list import plan_lowered
from mavcg.graph import Graph
from mavcg.passes.graph.pipeline import optimise
from mavcg.specs.kernel import Packing
from mavcg.text.terminal import say

NETWORKS: Mapping[str, Callable[[], Graph]] = {
    "MobileNet v2, 224": mobilenet_v2,
    "ResNet-50, 224": resnet50,
    "small YOLO, 640": partial(yolo_small, 640),
}
LANES = 8  # of packed weights, on Arm


def sizes(name: str, graph: Graph) -> dict[str, Any]:
    """Return a network's bytes by each method."""
    graph = optimise(with_seeded_weights(graph))
    cnn = network_of(graph, name)
    app = Application((cnn,), (sequential(cnn),))
    data = edge_data(app)
    planned = plan_lowered(with_image_rows(lower_graph(graph, Packing(LANES))))
    start = time.process_time()
    try:
        divide_rows(first_within([planned], 1))
    except ArenaTooLargeError as error:
        least = error.least_bytes
    seconds = time.process_time() - start
    program = divide_rows(first_within([planned], least)).program
    return {
        "network": name,
        "input_bytes": sum(tensor.type.bytes for tensor in program.inputs),
        "naive_bytes": total_size(naive_buffers(data)),
        "reuse_bytes": total_size(reuse_buffers(app, data)),
        "arena_bytes": planned.program.arena_bytes,
        "parts_bytes": program.arena_bytes,
        "phases": len(program.phases),
        "steps": len(program.steps),
        "moved_bytes": sum(phase.moved_bytes for phase in program.phases),
        "cpu_s": round(seconds, 2),
    }


def main() -> None:
    """Make the table; print it as JSON if asked, and record it."""
    parser = parser_with_json(__doc__, "the rows")
    options = parser.parse_args()
    rows = []
    for name, made in NETWORKS.items():
        say(name)
        rows.append(sizes(name, made()))
    if options.json:
        print(json.dumps(rows, indent=2))
    say(f"the record is {write('row_parts', facts('counted', 'bench.apps.row_parts') | {'rows': rows})}")


if __name__ == "__main__":
    main()
