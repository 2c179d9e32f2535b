"""Pipelines of two stages, one CPU each, beside single runs.

python -m bench.apps.pipelines [--seconds S] [NETWORK ..]

Each network is built by `mavcg app build` with `partitions = "auto:2"` for this machine, balanced by prediction, and
measured as `mavcg bench LIB --network N` does: pipeline and single runs with one and two threads in turns. It needs a
quiet machine with two CPUs or more, of which it uses two.
"""

import argparse
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.models import model_path
from bench.record import facts, write
from mavcg.apps.application_file import read_application_file
from mavcg.apps.library import build_application
from mavcg.errors import MavcgError
from mavcg.model.request import ModelOptions, make_model_request
from mavcg.runtime.application import load_application
from mavcg.runtime.random_inputs import random_inputs
from mavcg.runtime.timed_runs import measure_pipeline
from mavcg.text.terminal import say

NETWORKS = (
    "squeezenet-random",
    "mobilenet_v2",
    "mobilenet_v2-int8",
    "efficientnet_lite0",
    "resnet50-random",
    "hand_landmark",
    "face_landmark",
    "blazeface",
)
SECONDS = 3.0  # some four minutes for all; for the pipeline and for each number of threads


def measured(name: str, folder: Path, seconds: float) -> dict[str, Any]:
    """Build a network as a pipeline, and measure it."""
    file = folder / "app.toml"
    file.write_text(f'[[network]]\nname = "net"\nfile = "{model_path(name)}"\npartitions = "auto:2"\n')
    request, _ = make_model_request(file, str(folder / f"lib{name}.so"), ModelOptions(board="host"))
    result = build_application(read_application_file(file), request)
    pipeline = result.note["networks"][0]["pipeline"]
    with load_application(result.output) as application:
        arrays = random_inputs(application["net"], 0)
    row = measure_pipeline(result.output, "net", arrays, seconds)
    predicted = [stage["predicted_ms"] for stage in pipeline["stages"]]
    arena = result.note["arena_bytes"]
    return row | {
        "network": name,
        "predicted_ms": predicted,
        "ring_bytes": pipeline["ring_bytes"],
        "arena_bytes": arena,
    }


def main(words: Sequence[str] | None = None) -> None:
    """Measure and print; write the record if all networks were measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=list(NETWORKS), help="of bench.models; all")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for the pipeline and each number of threads")
    options = parser.parse_args(words)
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise MavcgError(f"bench.apps.pipelines: this process may use CPU {cpus[0]} only; give it two")
    os.sched_setaffinity(0, cpus[:2])
    rows = []
    with tempfile.TemporaryDirectory(prefix="mavcg-pipelines-") as folder:
        for name in options.networks:
            rows.append(measured(name, Path(folder), options.seconds))
            say(f"{name}: {rows[-1]['ratio']:.3f} of the frames of the best of single runs")
    if tuple(options.networks) == NETWORKS:
        record = facts("measured", "bench.apps.pipelines") | {"cpus": cpus[:2], "rows": rows}
        say(f"the record is {write('pipelines', record)}")


if __name__ == "__main__":
    main()
