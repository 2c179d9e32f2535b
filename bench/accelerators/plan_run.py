"""Plans run on this machine: whole networks as C by five planners, in seconds of CPU time.

    python -m bench.accelerators.plan_run [--networks N,..] [--setups A,..] [--blas LIBRARY.so] [--record]

Each network's plans for a setup (`mavcg plan NETWORK --accelerator setup-a --emit-c`, the thesis' searches and the
three fixed policies of its section 8.2) are compiled by clang -O2 and run; tiles are copied into the arrays that stand
for the on-chip memories and computed by the same plain loops, or over a BLAS. What differs is what
the plans differ in: how the loops are cut and ordered, and what is copied how often. All results have to agree. Rows
add up in the record.
"""

import argparse
import ctypes
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.accelerators.plan_baselines import SEARCHES
from bench.accelerators.thesis_figures import OURS, TABLE_8_4
from bench.record import facts, write
from bench.rows import measured_or_none
from mavcg.accelerators.plans.baselines import BASELINES
from mavcg.accelerators.plans.graph_layers import layers_of
from mavcg.accelerators.plans.request import read_graph
from mavcg.accelerators.plans.schedule_cache import plan_layers
from mavcg.accelerators.plans.text.emit import emit_plan
from mavcg.accelerators.plans.text.interpret import count_plan
from mavcg.accelerators.plans.text.network_c import network_c
from mavcg.accelerators.plans.text.network_c_library import BLAS_RUNTIME
from mavcg.accelerators.plans.text.network_plan_text import network_text
from mavcg.errors import MavcgError
from mavcg.graph import Array
from mavcg.graph.networks import NAMES
from mavcg.graph.networks.builder import drawn_constants
from mavcg.profiles.accelerators import find_accelerator
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_zig

NAME = "plan_run"
SETUPS = tuple(TABLE_8_4)
ROUNDS = 3


def compiled(network: str, setup: str, planner: str, folder: Path, blas: str) -> dict[str, Any]:
    """Return a planner's network as a library, its weights, and the bytes that its plans move."""
    graph = read_graph(network, {}, False)
    machine = find_accelerator(f"setup-{setup.lower()}")
    plans = [emit_plan(p.layer, p.tiling, machine) for p in plan_layers(layers_of(graph), machine, SEARCHES[planner])]
    text = network_text(graph, plans)
    constants = drawn_constants(graph, [name for name in graph.inputs if name != text.image])
    source, weights = network_c(text, "network", constants)
    path = folder / f"{planner}.c"
    path.write_text(source)
    (folder / "plan_blas.h").write_text(BLAS_RUNTIME)
    runtime = ['-DPLAN_RUNTIME="plan_blas.h"', str(Path(blas).resolve())] if blas else []
    words = ["-target", host_target().zig_name, "-O2", "-shared", "-fPIC", *PLAIN_CODE_FLAGS, path.name, *runtime]
    run_zig("cc", [*words, "-lm", "-o", f"{planner}.so"], f"compiling {network} by {planner}", folder)
    return {
        "library": ctypes.CDLL(str(folder / f"{planner}.so")),
        "weights": np.frombuffer(weights, "<f4"),
        "image": np.random.default_rng(1).standard_normal(graph.types[text.image].shape, np.float32),
        "count": int(np.prod(graph.types[graph.outputs[0]].shape)),
        "moved_bytes": sum(count_plan(plan).traffic.total_bytes for plan in plans),
    }


def once(made: Mapping[str, Any]) -> tuple[float, Array]:
    """Return the CPU seconds of one run, and its output."""
    result = np.full(made["count"], np.nan, np.float32)
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (made["weights"], made["image"], result)]
    start = time.thread_time()
    if made["library"].network(*pointers):
        raise MavcgError("bench.accelerators.plan_run: memory lacks")
    return time.thread_time() - start, result


def compare(network: str, setup: str, blas: str) -> dict[str, Any]:
    """Return the row of a network on a setup.

    Each planner's least seconds, interleaved, and speed-ups of the thesis's search. Raises: MavcgError if results
    differ by more than 1e-4 of the largest element.
    """
    with tempfile.TemporaryDirectory(prefix="mavcg-plan-run-") as folder:
        all_made = {planner: compiled(network, setup, planner, Path(folder), blas) for planner in SEARCHES}
        seconds: dict[str, list[float]] = {planner: [] for planner in SEARCHES}
        results: dict[str, Array] = {}
        for number in range(ROUNDS):
            names = list(SEARCHES)
            for planner in names[number:] + names[:number]:
                took, results[planner] = once(all_made[planner])
                seconds[planner].append(took)
    for planner, result in results.items():
        difference = float(np.abs(result - results[OURS]).max() / np.abs(results[OURS]).max())
        if not difference <= 1e-4:
            raise MavcgError(
                f"bench.accelerators.plan_run: {network}, setup {setup}: {planner} differs by {difference:.2g}"
            )
    least = {planner: min(values) for planner, values in seconds.items()}
    return {
        "network": network,
        "setup": setup,
        "runtime": "blas" if blas else "loops",
        "seconds": {planner: round(value, 4) for planner, value in least.items()},
        "moved_mib": {planner: round(made["moved_bytes"] / 2**20, 1) for planner, made in all_made.items()},
        "speedup": {planner: round(least[planner] / least[OURS], 3) for planner in BASELINES},
        "exact_over_pruned": round(least[OURS] / least["exact"], 3),
        "paper_mean_of_the_three": TABLE_8_4[setup][NAMES.index(network)] if network in NAMES else None,
    }


def record_row(row: Mapping[str, Any]) -> None:
    """Put a row into the record, in place of an older one of the same network, setup and runtime."""
    rows: Sequence[Mapping[str, Any]] = measured_or_none(NAME).get("rows", ())
    keys = ("network", "setup", "runtime")
    kept = [recorded for recorded in rows if any(recorded[key] != row[key] for key in keys)]
    ordered = sorted([*kept, row], key=lambda r: [str(r[key]) for key in keys])
    write(NAME, {**facts("measured", f"bench.{NAME} --record"), "rounds": ROUNDS, "rows": ordered})


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default="squeezenet,alexnet,resnet50", help=f"of {', '.join(NAMES)}, with commas")
    parser.add_argument("--setups", default=",".join(SETUPS), help="with commas")
    parser.add_argument("--blas", default="", metavar="LIBRARY", help="a CBLAS to compute tiles with")
    parser.add_argument("--record", action="store_true", help=f"into bench/results/{NAME}.json")
    arguments = parser.parse_args()
    for network in arguments.networks.split(","):
        for setup in arguments.setups.split(","):
            row = compare(network, setup, arguments.blas)
            print(json.dumps(row), flush=True)
            if arguments.record:
                record_row(row)


if __name__ == "__main__":
    main()
