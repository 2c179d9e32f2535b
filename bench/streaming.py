"""Memory bandwidth of one and two threads, read by a loop and by products of one row: `python -m bench.streaming`.

A fully connected layer of one image reads each weight once, so memory bounds it, and a second thread gains only what
memory delivers to two cores beyond one. Therefore a library of such layers is measured beside a plain reading loop,
over one stream or several at the same time (hardware prefetchers follow several streams). All read 128 MB repeatedly,
more than caches hold, in bursts of under a millisecond; sources alternate. The upper decile of the bursts counts, since
other programs can only reduce bandwidth; the median shows how often they did.
"""

import ctypes
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from bench.host_library import build_for_host
from bench.record import facts, parser_with_json, write
from bench.tables.catalogue import print_record
from mavcg.errors import MavcgError
from mavcg.runtime.loading import Model, load
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import run_zig

STREAMS = (1, 4)
TERMS, CHANNELS, LAYERS = 4096, 1024, 8  # of the products: 16 MiB of weights each
BYTES = 4 * TERMS * CHANNELS * LAYERS
BURST = BYTES // LAYERS  # of all threads together
ROUNDS, RUNS, PAUSE_S = 60, 3, 0.002
READER = Path(__file__).with_suffix(".c")


def reader(folder: Path) -> ctypes.CDLL:
    """Return the reading loop, compiled for this machine."""
    out = folder / "libreader.so"
    flags = ["-target", host_target().zig_name, "-mcpu=native", "-O2", "-fPIC", "-shared", "-lc"]
    run_zig("cc", [*flags, str(READER), "-o", str(out)], "compiling the reading loop")
    return ctypes.CDLL(str(out))


def products(folder: Path) -> Path:
    """Return a library of LAYERS products of one row with different weights."""
    rng, weights = np.random.default_rng(0), []
    for number in range(LAYERS):
        values = rng.standard_normal((TERMS, CHANNELS), np.float32)
        weights.append(numpy_helper.from_array(values, f"w{number}"))
    nodes = [helper.make_node("MatMul", ["x", f"w{number}"], [f"y{number}"]) for number in range(LAYERS)]
    f32 = onnx.TensorProto.FLOAT
    outputs = [helper.make_tensor_value_info(f"y{number}", f32, (1, CHANNELS)) for number in range(LAYERS)]
    x = helper.make_tensor_value_info("x", f32, (1, TERMS))
    graph = helper.make_graph(nodes, "products", [x], outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(folder / "products.onnx"))
    return build_for_host(folder / "products.onnx", folder / "libproducts.so")


def of_reader(library: ctypes.CDLL, start: int, streams: int, threads: int, cpu: int) -> Callable[[], list[float]]:
    """Return the ns of each burst of one pass over the memory."""
    arguments = ctypes.c_void_p(start), ctypes.c_uint64(BURST), streams, threads, LAYERS, cpu

    def passage() -> list[float]:
        burst_ns = (ctypes.c_double * LAYERS)()
        if library.bursts(*arguments, burst_ns):
            raise MavcgError("bench.streaming: the system lets it start no second thread; it takes one")
        return list(burst_ns)

    return passage


def of_model(model: Model) -> Callable[[], list[float]]:
    """Return the ns of each layer in several runs, after one run that wakes the threads."""
    x = np.ones((1, TERMS), np.float32)

    def passage() -> list[float]:
        model.run(x)
        return [step.ns for _ in range(RUNS) for step in model.profile(x)]

    return passage


def measure(rounds: int = ROUNDS) -> list[dict[str, Any]]:
    """Return a row for each source and number of threads: GB/s of the upper decile and of the median burst."""
    cpus = sorted(os.sched_getaffinity(0))[:2]
    if len(cpus) < 2:
        raise MavcgError("bench.streaming: this process may use one CPU only; it takes two")
    memory = np.ones(BYTES // 4 + 1024, np.float32)
    start = memory.ctypes.data + -memory.ctypes.data % 4096
    with tempfile.TemporaryDirectory(prefix="mavcg-streaming-") as folder:
        library, model_path = reader(Path(folder)), products(Path(folder))
        sources: dict[tuple[str, int], Callable[[], list[float]]] = {}
        for threads in (1, 2):
            for streams in STREAMS:
                name = f"reading loop, {streams} run{'s' * (streams > 1)}"
                sources[name, threads] = of_reader(library, start, streams, threads, cpus[1])
            sources["products of one row", threads] = of_model(load(model_path, threads=threads, pin=True))
        for source in sources.values():
            source()  # starts threads, which tie themselves to the second CPU
        os.sched_setaffinity(0, cpus[:1])
        times: dict[tuple[str, int], list[float]] = {key: [] for key in sources}
        keys = list(sources)
        for number in range(rounds):
            for key in (*keys[number % len(keys) :], *keys[: number % len(keys)]):
                time.sleep(PAUSE_S)
                times[key] += sources[key]()
        os.sched_setaffinity(0, cpus)
    rows = []
    for name, threads in sorted(keys):
        fast, usual = np.quantile(times[name, threads], (0.1, 0.5))
        speeds = {"gb_per_s": round(BURST / float(fast), 2), "median_gb_per_s": round(BURST / float(usual), 2)}
        rows.append({"source": name, "threads": threads, **speeds})
    return rows


def main() -> None:
    """Measure, print, and write bench/results/streaming.json."""
    parser = parser_with_json(__doc__, "the rows instead of a table")
    args = parser.parse_args()
    rows = measure()
    record = {
        **facts("measured", "bench.streaming"),
        "rounds": ROUNDS,
        "burst_bytes": BURST,
        "bytes": BYTES,
        "rows": rows,
    }
    write("streaming", record)
    if args.json:
        print(json.dumps(rows, indent=2))
        return
    print_record("streaming", record)


if __name__ == "__main__":
    main()
