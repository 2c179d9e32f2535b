"""Time of computing by parts of rows on this machine, interleaved: `python -m bench.row_times [--record] [--cpu-time]`.

The networks of bench.apps.row_parts, built for this machine layer by layer, under limits on the arena (`--max-arena`),
and in the least arena; timed in turns with one thread and with two. A ratio is the median of the rounds' ratios to
layer by layer; above 1 is slower. Results are compared: they have the same bits. About three minutes on a quiet
machine.
"""

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.apps.row_parts import NETWORKS
from bench.depth_first import WHOLE, measure
from bench.host_library import no_costs
from bench.record import facts, write
from mavcg.accelerators.networks import with_seeded_weights
from mavcg.choose.bands.banded_range import OFF
from mavcg.choose.limits.arena_limit import ArenaTooLargeError
from mavcg.model.model import build_model
from mavcg.model.request import ModelOptions, SelectionOptions, make_model_request
from mavcg.text.terminal import say

LEAST = "least"
LIMITS: Mapping[str, Mapping[str, int]] = {"MobileNet v2, 224": {"1.2 MB": 1_200_000, "0.65 MB": 650_000}}
ROUNDS = 6


def build_ways(name: str, folder: Path) -> dict[str, dict[str, Any]]:
    """Build a network layer by layer, within its limits, and in the least arena; returns the libraries by mode."""
    graph = with_seeded_weights(NETWORKS[name]())
    file = folder / "network.onnx"  # only its name is used: the graph is given
    file.write_bytes(name.encode())
    by_mode: dict[str, dict[str, Any]] = {}
    for number, (mode, limit) in enumerate(({WHOLE: None} | dict(LIMITS.get(name, {})) | {LEAST: 1}).items()):
        own = folder / str(number)
        own.mkdir()
        selection = SelectionOptions(db=no_costs(own), depth_first=OFF)
        request, _ = make_model_request(file, str(own / "libnetwork.so"), ModelOptions(board="host"), selection)
        # Without algorithms that have an error, which do not go row by row: so all results have the same bits.
        request = replace(request, graph=graph, max_error=0, max_arena_bytes=limit)
        say(f"{name}: building {mode}")
        try:
            made = build_model(request)
        except ArenaTooLargeError as error:
            made = build_model(replace(request, max_arena_bytes=error.least_bytes))
        program = made.plan.program
        by_mode[mode] = {
            "library": str(made.output),
            "arena_bytes": program.arena_bytes,
            "phases": len(program.phases) or len(program.steps),
            "moved_bytes": sum(phase.moved_bytes for phase in program.phases),
        }
    return by_mode


def network_row(name: str, threads: Sequence[int], rounds: int, clock: str) -> dict[str, Any]:
    """Build and time a network."""
    with tempfile.TemporaryDirectory(prefix="mavcg-row-times-") as folder:
        built = build_ways(name, Path(folder))
        timed = [measure(built, count, rounds, clock) for count in threads]
    modes = {mode: {key: value for key, value in row.items() if key != "library"} for mode, row in built.items()}
    return {"network": name, "ways": modes, "timed": timed}


def main() -> None:
    """Measure, print, and record if asked and nothing was left out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(NETWORKS), help="one network; writes no record")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--cpu-time", action="store_true", help="CPU time in place of the clock on the wall")
    parser.add_argument("--json", action="store_true", help="print the rows")
    parser.add_argument("--record", action="store_true", help="write bench/results/row_times.json")
    options = parser.parse_args()
    clock, rows = "cpu_ms" if options.cpu_time else "ms", list[dict[str, Any]]()
    for name in [options.only] if options.only else NETWORKS:
        rows.append(network_row(name, (1, 2), options.rounds, clock))
        for timed in rows[-1]["timed"]:
            ratios = ", ".join(f"{mode} {ratio:.3f}" for mode, ratio in timed["ratio"].items() if mode != WHOLE)
            say(f"{name}, threads: {timed['threads']}: {timed['ms'][WHOLE]:.2f} ms layer by layer; ratios: {ratios}")
    if options.json:
        print(json.dumps(rows, indent=2))
    if options.record and not options.only:
        path = write("row_times", facts("measured", "bench.row_times --record") | {"rows": rows})
        say(f"the record is {path}")


if __name__ == "__main__":
    main()
