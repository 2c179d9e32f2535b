"""Ten networks beside the limits of this machine: `python -m bench.limits [NETWORK ..]`, on a quiet machine.

`mavcg bench --limit` of each network's library, with one thread and two: its time, the sum of its layers' limits, and
the layers that lose most; and how far apart the medians of ten processes are, as the same code may take more time at
other addresses. Without names, bench/results/limits.json is written.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.interleaved import process_medians
from bench.models import model_path
from bench.peers import COUNTED
from bench.record import facts, write
from bench.runners import built_library
from bench.tables.catalogue import print_record
from mavcg.cost.limit import NEAR
from mavcg.errors import MavcgError

NETWORKS = COUNTED[:10]  # eight in f32, two of 8 bits
THREADS, SECONDS = "1,2", 2
PROCESSES, ROUNDS = 10, 2  # of which the spread is: a round on each of two CPUs
MOST_LAYERS = 3  # of a network and a number of threads, those that lose most


def limits(name: str) -> list[dict[str, Any]]:
    """Return the rows of a network, one for each number of threads. Raises: MavcgError where it cannot be timed."""
    library = built_library(model_path(name))
    command = [sys.executable, "-m", "mavcg.cli", "bench", str(library)]
    command += ["--limit", "--threads", THREADS, "--seconds", str(SECONDS), "--json"]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True)
    if done.returncode:
        raise MavcgError(f"{name}: mavcg bench --limit fails: {done.stderr.strip()}")
    rows = []
    for measured in json.loads(done.stdout)["measured"]:
        try:
            medians = process_medians(library, measured["threads"], PROCESSES, ROUNDS)
        except RuntimeError as error:
            raise MavcgError(f"{name}: one of {PROCESSES} processes fails: {error}") from error
        rows.append(row_of(name, measured, medians))
    return rows


def row_of(name: str, measured: dict[str, Any], medians: Sequence[float]) -> dict[str, Any]:
    """Return the row of a network with a number of threads, of an entry of `mavcg bench --limit --json`.

    medians: of processes, in ms.
    """
    layers = measured["limits"]["layers"]
    lost = sorted(layers, key=lambda layer: layer["limit_ms"] - layer["ms"])[:MOST_LAYERS]
    keys = ("name", "op", "ms", "limit_ms", "bound_by")
    return {
        "network": name,
        "threads": measured["threads"],
        "median_ms": measured["median_ms"],
        "process_medians_ms": [round(ms, 4) for ms in medians],
        "spread": round(max(medians) / min(medians), 3),
        "limit_ms": measured["limits"]["total"]["limit_ms"],
        "over": round(measured["median_ms"] / measured["limits"]["total"]["limit_ms"], 3),
        "layers": len(layers),
        "above": sum(layer["over"] is not None and layer["over"] > NEAR for layer in layers),
        "most": [{"primitive": layer.get("primitive", ""), **{key: layer[key] for key in keys}} for layer in lost],
    }


def main() -> None:
    """Measure, print, and write the record where all networks were measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=NETWORKS, help="of bench.models; ten where none is named")
    networks = parser.parse_args().networks
    rows = []
    try:
        for name in networks:
            print(f"bench: {name}", file=sys.stderr, flush=True)
            rows += limits(name)
    except MavcgError as error:
        sys.exit(f"bench.limits: {error}")
    record = {**facts("measured", "bench.limits"), "near": NEAR, "rows": rows}
    if networks == NETWORKS:
        write("limits", record)
    print_record("limits", record)


if __name__ == "__main__":
    main()
