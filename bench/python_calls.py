"""The time that a run from Python adds to the call in C: `python -m bench.python_calls [--json]`.

The model is one addition of four numbers, built for this machine. Times are CPU times of this process, the least of
several repeats, so that other processes count little. `out=` writes into preallocated arrays.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import mavcg
from bench.record import facts
from mavcg.model.model import build_model
from mavcg.model.request import ModelOptions, make_model_request
from mavcg.runtime.declared import ffi

CALLS, REPEATS = 20_000, 9


def cpu_us(call: Callable[[], Any]) -> float:
    """Return microseconds of CPU time of one call, the least of REPEATS means."""
    best = float("inf")
    for _ in range(REPEATS):
        begin = time.process_time()
        for _ in range(CALLS):
            call()
        best = min(best, time.process_time() - begin)
    return best / CALLS * 1e6


def small_model(folder: Path) -> Path:
    """Build the library of y = x + 1 for four numbers. Returns its path."""
    import onnx

    value = onnx.helper.make_tensor_value_info
    ones = onnx.numpy_helper.from_array(np.ones(4, np.float32), "one")
    nodes = [onnx.helper.make_node("Add", ["x", "one"], ["y"])]
    graph = onnx.helper.make_graph(nodes, "g", [value("x", 1, [4])], [value("y", 1, [4])], [ones])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "small.onnx")
    request, _ = make_model_request(folder / "small.onnx", str(folder / "libsmall.so"), ModelOptions(board="host"))
    return build_model(request).output


def measure() -> dict[str, float]:
    """Return microseconds of CPU time: of the C call with pointers that are ready, and what Python adds to it."""
    with tempfile.TemporaryDirectory() as scratch, mavcg.load(small_model(Path(scratch))) as model:
        x, y = np.zeros(4, np.float32), np.zeros(4, np.float32)
        inputs, outputs = (ffi.new("void *[]", [ffi.from_buffer(array)]) for array in (x, y))
        function, context = model._run_model, model._context
        kept = (y,)
        c_call = cpu_us(lambda: function(context, inputs, outputs))
        return {
            "c_call_us": c_call,
            "run_adds_us": cpu_us(lambda: model.run(x)) - c_call,
            "run_with_out_adds_us": cpu_us(lambda: model.run(x, out=kept)) - c_call,
        }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.python_calls", description="Calls from Python.")
    parser.add_argument("--json", action="store_true", help="print the document")
    arguments = parser.parse_args()
    document = facts("measured", "bench.python_calls") | {name: round(us, 2) for name, us in measure().items()}
    if arguments.json:
        print(json.dumps(document, indent=2))
        return
    print(
        f"C call {document['c_call_us']} us; run adds {document['run_adds_us']} us, with out= "
        f"{document['run_with_out_adds_us']} us (CPU time, load {document['load_average']})"
    )


if __name__ == "__main__":
    main()
