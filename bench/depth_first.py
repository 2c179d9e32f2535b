"""Layers by bands of rows beside layer by layer, interleaved: `python -m bench.depth_first [--record]`.

Each network is built for this machine three times: layer by layer; by bands where that is predicted to pay (auto);
and by every band that is predicted to be faster (on). With --least-arena also in the least arena that parts of rows
reach (--max-arena), the search for which takes minutes at 640 pixels. Without that a whole run is 36 builds of 4 to 9
CPU seconds and some three minutes of timing. The libraries are timed in turns with one thread and with two. Weights
are seeded: no time depends on them. A ratio is the median of the rounds' ratios to layer by layer; below 1 is faster.
Arenas are counted; inputs and outputs are beside them.
"""

import argparse
import json
import os
import re
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.apps.joint_networks import efficientnet_lite0
from bench.host_library import no_costs
from bench.interleaved import round_medians, start
from bench.models import model_path
from bench.peers import difference, outputs_of
from bench.record import facts, write
from mavcg.accelerators.networks import mobilenet_v2, with_seeded_weights
from mavcg.choose.bands.banded_range import AUTO, OFF, ON
from mavcg.choose.limits.arena_limit import ArenaTooLargeError
from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.graph.networks import squeezenet
from mavcg.importers.load import import_model
from mavcg.model.model import build_model
from mavcg.model.model_request import ModelRequest
from mavcg.model.request import ModelOptions, SelectionOptions, make_model_request
from mavcg.text.terminal import say

SIDES = (224, 320, 640)
TOPOLOGIES: Mapping[str, Callable[..., Graph]] = {
    "MobileNet v2": mobilenet_v2,
    "EfficientNet-Lite0": efficientnet_lite0,
    "SqueezeNet 1.1": squeezenet,
}
FILES = ("blazeface", "face_landmark", "hand_landmark")
NETWORKS: Mapping[str, Callable[[], Graph]] = {
    **{f"{name}, {side}": partial(made, side=side) for name, made in TOPOLOGIES.items() for side in SIDES},
    **{name: (lambda name=name: import_model(model_path(name), {})) for name in FILES},  # type: ignore[misc]
}
WHOLE, LEAST = "layers", "least-arena"  # names of files, too
MODES = {WHOLE: OFF, AUTO: AUTO, ON: ON, LEAST: OFF}  # to the mode of `build --depth-first`
ROUNDS = 6  # even, so that each of two CPUs has as many


def build_all(name: str, folder: Path, modes: Sequence[str] = tuple(MODES)) -> dict[str, dict[str, Any]]:
    """Build a network by each strategy; returns, by strategy, the library's path, arena, phases and ranges by bands."""
    graph = NETWORKS[name]()
    graph = graph if name in FILES else with_seeded_weights(graph)
    file = folder / "network.onnx"  # only its name is used: the graph is given
    file.write_bytes(name.encode())
    by_mode: dict[str, dict[str, Any]] = {}
    for mode in modes:
        own = folder / re.sub(r"\W", "_", mode)
        own.mkdir()
        selection = SelectionOptions(db=no_costs(own), depth_first=MODES[mode])
        request, _ = make_model_request(file, str(own / "libnetwork.so"), ModelOptions(board="host"), selection)
        request = replace(request, graph=graph, max_arena_bytes=1 if mode == LEAST else None)
        by_mode[mode] = _built(request)
    return by_mode


def _built(request: ModelRequest) -> dict[str, Any]:
    try:
        made = build_model(request)
    except ArenaTooLargeError as error:
        made = build_model(replace(request, max_arena_bytes=error.least_bytes))
    program = made.plan.program
    return {
        "library": str(made.output),
        "arena_bytes": program.arena_bytes,
        "steps": len(program.steps),
        "phases": len(program.phases) or len(program.steps),
        "moved_bytes": sum(phase.moved_bytes for phase in program.phases),
        "bands": list(made.note.get("depth_first", ())),
    }


def measure(built: Mapping[str, Mapping[str, Any]], threads: int, rounds: int, clock: str) -> dict[str, Any]:
    """Time the libraries, interleaved. Raises: MavcgError if one fails or their results differ in a bit."""
    workers = []
    try:
        for mode, row in built.items():
            worker = start("mavcg", Path(row["library"]), threads)
            worker.runtime = mode
            workers.append(worker)
        reasons: dict[str, str] = {}
        outputs = outputs_of(workers, reasons)
        for mode in built:
            if mode in reasons:
                raise MavcgError(f"{mode}: {reasons[mode]}")
            if difference(outputs[mode], outputs[WHOLE]):
                raise MavcgError(f"{mode}: other results than layer by layer; report this as a bug")
        load = os.getloadavg()[0]
        medians = round_medians(workers, rounds, clock)
    finally:
        for worker in workers:
            worker.end()
    return {
        "threads": threads,
        "clock": clock,
        "load_average": round(load, 2),
        "ms": {mode: round(statistics.median(times), 4) for mode, times in medians.items()},
        "ratio": {
            mode: round(statistics.median(a / b for a, b in zip(times, medians[WHOLE], strict=True)), 4)
            for mode, times in medians.items()
        },
    }


def network_row(
    name: str, threads: Sequence[int], rounds: int, clock: str, modes: Sequence[str] = tuple(MODES)
) -> dict[str, Any]:
    """Build and time one network by these strategies, of which the first is layer by layer."""
    with tempfile.TemporaryDirectory(prefix="mavcg-depth-first-") as folder:
        built = build_all(name, Path(folder), modes)
        timed = [measure(built, count, rounds, clock) for count in threads]
    described = {mode: {key: value for key, value in row.items() if key != "library"} for mode, row in built.items()}
    return {"network": name, "ways": described, "timed": timed}


def show(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the table."""
    others = [mode for mode in MODES if mode != WHOLE and mode in rows[0]["ways"]]
    table = Table("network", "threads", f"{WHOLE}: ms", "MB", *(f"{mode}: ratio, MB" for mode in others))
    for row in rows:
        for timed in row["timed"]:
            cells = [f"{timed['ratio'][mode]:.3f}, {row['ways'][mode]['arena_bytes'] / 1e6:.2f}" for mode in others]
            arena = row["ways"][WHOLE]["arena_bytes"] / 1e6
            table.add_row(row["network"], str(timed["threads"]), f"{timed['ms'][WHOLE]:.3f}", f"{arena:.2f}", *cells)
    Console().print(table)


def main() -> None:
    """Measure, print, and record if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", help=f"of {'; '.join(NETWORKS)}: parts of names, separated by ';'")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--cpu-time", action="store_true", help="compare CPU time, for a busy machine")
    parser.add_argument("--least-arena", action="store_true", help="in the least arena, too: takes an hour")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    words = (options.networks or "").split(";")
    names = [name for name in NETWORKS if any(word.strip().lower() in name.lower() for word in words)]
    if not names:
        parser.error(f"--networks {options.networks}: there is none; there are {'; '.join(NETWORKS)}")
    modes = [mode for mode in MODES if mode != LEAST or options.least_arena]
    rows = []
    for name in names:
        say(name)
        threads = [int(count) for count in options.threads.split(",")]
        rows.append(network_row(name, threads, options.rounds, "cpu_ms" if options.cpu_time else "ms", modes))
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        show(rows)
    if options.record:
        record = facts("measured", "bench.depth_first") | {"rounds": options.rounds, "rows": rows}
        say(f"the record is {write('depth_first', record)}")


if __name__ == "__main__":
    main()
