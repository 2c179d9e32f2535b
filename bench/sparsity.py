"""Convolutions by sparse weights beside dense ones, by sparsity: `python -m bench.sparsity [--record]`.

For layers of 1x1 and 3x3: the CPU time of each sparse primitive at each sparsity, over that of the fastest dense
primitive of the list, and the sparsity from which a sparse one wins. Zeros are set one by one, and in blocks of
neighbouring output channels. One thread, warm caches, the shortest of the rounds. CPU time excludes other programs,
except their effect on caches and a shared core.
"""

import argparse
import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.record import facts, write
from mavcg.kernels.primitives.registry import find_primitive
from mavcg.kernels.primitives.sparse.family import PRIMITIVES
from mavcg.lab.runners.bench_program import bench_target, build_program
from mavcg.lab.trials.run import find_machine
from mavcg.lab.tuning.measured_core import bench_job_of
from mavcg.lab.tuning.work_list import Job
from mavcg.runtime.machines import block_of
from mavcg.specs.primitive import Primitive, Scenario

LAYERS: Mapping[str, Scenario] = {
    "resnet50 2, 1x1": Scenario(64, 56, 56, 1, 1, 256),
    "resnet50 4, 1x1": Scenario(1024, 14, 14, 1, 1, 256),
    "resnet50 5, 1x1": Scenario(512, 7, 7, 1, 1, 2048),
    "mobilenet_v2 project": Scenario(144, 28, 28, 1, 1, 32),
    "resnet50 3, 3x3": Scenario(128, 28, 28, 1, 3, 128, 1),
    "resnet50 5, 3x3": Scenario(512, 7, 7, 1, 3, 512, 1),
}
DENSE = (
    "implicit_gemm_hwc_hwc",
    "im2col_chw_chw",
    "im2col_strips_chw_chw",
    "direct_columns_chw_chw",
    "winograd_2d_f4_k3_hwc_hwc",
    "winograd_2d_f4_k3_chw_chw",
)
SPARSITIES = (0, 50, 70, 80, 90, 95, 99)


def jobs_of(scenario: Scenario, blocks: bool) -> list[tuple[Primitive, Scenario]]:
    """Return the dense primitives that apply, then the sparse ones at every sparsity.

    blocks: True for zeros in blocks.
    """
    dense = [find_primitive(name) for name in DENSE]
    jobs = [(p, scenario) for p in dense if p.applies(scenario)]
    for percent in SPARSITIES:
        sparse = replace(scenario, sparsity=percent, block_sparsity=percent if blocks else 0)
        jobs += [(p, sparse) for p in PRIMITIVES if blocks or p.name.startswith("sparse_csr")]
    return jobs


def measured(jobs: Sequence[tuple[Primitive, Scenario]], folder: Path) -> list[float]:
    """Return the microseconds of CPU time of each job."""
    machine = find_machine("host")
    block = block_of(machine)
    made = [bench_job_of(Job((s, p.name), 0.0, p), block) for p, s in jobs]
    program = build_program(made, machine, None, bench_target(machine.arch), folder, workers=2)
    words = ["--jobs", f"0-{len(jobs) - 1}", "--rounds", "9", "--round-ns", "2000000", "--least-ns", "20000000"]
    done = subprocess.run([program.path, *words, "--cold", "0"], capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [min(line["warm"]["ns"]) / 1e3 for line in lines if "job" in line]


def layer_rows(name: str, scenario: Scenario, folder: Path) -> list[dict[str, Any]]:
    """Return a row for single zeros and a row for zeros in blocks."""
    rows = []
    for blocks in (False, True):
        jobs = jobs_of(scenario, blocks)
        times = measured(jobs, folder)
        dense = min((us, p.name) for us, (p, s) in zip(times, jobs, strict=True) if p.family != "sparse")
        fastest: dict[int, tuple[float, str]] = {}
        for us, (p, s) in zip(times, jobs, strict=True):
            if p.family == "sparse":
                fastest[s.sparsity] = min(fastest.get(s.sparsity, (us, p.name)), (us, p.name))
        winning = [percent for percent in SPARSITIES if fastest[percent][0] < dense[0]]
        rows.append(
            {
                "layer": name,
                "zeros": "in blocks" if blocks else "one by one",
                "dense": dense[1],
                "dense_us": dense[0],
                "over_dense": {str(percent): fastest[percent][0] / dense[0] for percent in SPARSITIES},
                "primitive": {str(percent): fastest[percent][1] for percent in SPARSITIES},
                "wins_from_percent": winning[0] if winning else None,
            }
        )
    return rows


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.sparsity", description="Sparse weights beside dense ones")
    parser.add_argument("--record", action="store_true", help="into bench/results/sparsity.json")
    arguments = parser.parse_args()
    rows = []
    for name, scenario in LAYERS.items():
        with tempfile.TemporaryDirectory(prefix="mavcg-sparsity-") as folder:
            for row in layer_rows(name, scenario, Path(folder)):
                rows.append(row)
                ratios = " ".join(f"{percent}%:{ratio:.2f}" for percent, ratio in row["over_dense"].items())
                print(f"{name}, zeros {row['zeros']}: {row['dense']} {row['dense_us']:.0f} us; {ratios}", flush=True)
    if arguments.record:
        write("sparsity", facts("measured", "bench.sparsity --record") | {"layers": rows})


if __name__ == "__main__":
    main()
