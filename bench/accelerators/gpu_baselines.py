"""Tilings for GPUs beside other planners of the literature: `python -m bench.accelerators.gpu_baselines --record`.

Modelled, for the e-PlaNNer thesis's five networks and the GPUs of profiles/gpus, each as one block's shared memory and
registers (accelerators/plans/machines.py): speed-ups as its table 8.4 has them, less off-chip access as its figure
8.2, and each operand's access of VGG-16's layers as its figure 8.3. The thesis measured on a Jetson TX2; nothing here
is.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markdown import Markdown

from bench.accelerators.plan_baselines import (
    ASSUMPTIONS,
    MIB,
    OURS,
    PAPER_REDUCTION,
    SEARCHES,
    TABLE_8_4,
    compare,
    mean,
)
from bench.record import facts, write
from bench.tables.markdown import Record, table
from mavcg.accelerators.plans.baselines import BASELINES
from mavcg.accelerators.plans.graph_layers import layers_of
from mavcg.accelerators.plans.machines import block_machine
from mavcg.accelerators.plans.schedule_cache import plan_layers
from mavcg.graph.networks import NAMES, network
from mavcg.profiles.folders import files
from mavcg.profiles.gpus import load_gpu

LAYERS_OF, LAYERS_ON = "vgg16", "jetson-tx2"  # figure 8.3's network, and the thesis's board
OPERANDS = ("input", "weight", "output")
OWN_ASSUMPTIONS = (
    "A GPU is one block: half of its shared memory each for input and weights, 64 sums of each of 256 threads in "
    "registers; all blocks together reach the chip's peaks. The thesis's setups A to D are 640 and 1,280 KiB, which "
    "no block has: its ratios stand beside ours for the same networks, not for the same memory.",
    "Caches are not in the model. If the level-2 cache kept all that is loaded again, every planner would move the "
    "bytes of no reload: what it hides lies between no and all of the difference. On an H100 the profiler saw less "
    "than the tensors' bytes (table CUDA kernels beside cuDNN).",
)


def operand_rows(gpu: str) -> list[dict[str, Any]]:
    """Return the bytes of input, weights and output of each VGG-16 layer, by planner (figure 8.3)."""
    layers, machine = layers_of(network(LAYERS_OF, paper_variant=True)), block_machine(load_gpu(gpu))
    plans = {planner: plan_layers(layers, machine, search) for planner, search in SEARCHES.items()}
    rows = []
    for number, layer in enumerate(layers):
        moved = {planner: of[number].reached.traffic for planner, of in plans.items()}
        rows.append(
            {
                "layer": layer.name,
                **{
                    planner: [each.input_bytes, each.weight_bytes, each.output_bytes] for planner, each in moved.items()
                },
            }
        )
    return rows


def gpu_baselines(record: Record) -> str:
    """Return the record's tables."""
    return "\n\n".join((_speedups(record), _reductions(record), _layers(record)))


def _speedups(record: Record) -> str:
    rows: list[Sequence[object]] = []
    for gpu in record["gpus"]:
        cells = [
            f"{mean(record['rows'], 'speedup_overlapped', setup=gpu, network=name):.2f}, "
            f"{mean(record['rows'], 'speedup_in_turns', setup=gpu, network=name):.2f}"
            for name in NAMES
        ]
        rows += [[f"{gpu}, modelled", *cells], [f"{gpu}, measured", *["not run"] * len(NAMES)]]
    for setup, measured in record["table_8_4_measured_by_the_paper"].items():
        rows.append([f"setup {setup}, the thesis on a Jetson TX2", *(f"{value:.2f}" for value in measured)])
    text = (
        "Modelled, table 8.4: speed of the thesis's own search over the planners of its table 8.3 (mean of "
        f"{', '.join(BASELINES)}), by the roofline with transfers overlapping computation, then without "
        "overlap. No GPU ran these tilings (not run); plans of setup A ran on an H100 (CUDA kernels beside "
        "cuDNN)."
    )
    return f"{text}\n\n" + table(["GPU", *NAMES], rows)


def _reductions(record: Record) -> str:
    rows = []
    for gpu in record["gpus"]:
        of = [row for row in record["rows"] if row["setup"] == gpu]
        means = [f"{mean(of, 'reduction_percent', network=name):.1f}" for name in NAMES]
        over = [row["bytes"][OURS] / MIB / row["no_reload_mib"] for row in of]
        exact = [1 - row["bytes"]["exact"] / row["bytes"][OURS] for row in of]
        rows.append(
            [
                gpu,
                *means,
                f"{mean(of, 'reduction_percent'):.1f}",
                f"{min(over):.1f} to {max(over):.1f}",
                f"{100 * min(exact):.1f} to {100 * max(exact):.1f}",
            ]
        )
    paper = [f"{PAPER_REDUCTION[name]:.1f}" if name in PAPER_REDUCTION else "" for name in NAMES]
    rows.append(["setups A to D, the thesis", *paper, f"{PAPER_REDUCTION['mean']:.1f}", "", ""])
    text = (
        "Modelled, figure 8.2: percent less off-chip access than the others' mean; bytes over those of no reload; "
        "percent less again by our exact search."
    )
    return f"{text}\n\n" + table(["GPU", *NAMES, "mean", "over no reload", "exact"], rows)


def _layers(record: Record) -> str:
    planners = list(SEARCHES)
    rows = [
        [row["layer"], *(" + ".join(f"{bytes_ / MIB:.1f}" for bytes_ in row[planner]) for planner in planners)]
        for row in record["layers"]
    ]
    sums = [
        " + ".join(f"{sum(row[planner][k] for row in record['layers']) / MIB:.0f}" for k in range(len(OPERANDS)))
        for planner in planners
    ]
    text = (
        f"Modelled, figure 8.3 ({LAYERS_OF} on {LAYERS_ON}): MiB of input + weights + output. The thesis prints its "
        "figure as a chart of setup A, without numbers."
    )
    return f"{text}\n\n" + table(["layer", *planners], [*rows, ["all", *sums]])


TABLES = {"gpu_baselines": ("Tilings for GPUs beside other planners", gpu_baselines)}


def main() -> None:
    """Plan and print; with --record write bench/results/gpu_baselines.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="write the record")
    args = parser.parse_args()
    gpus, rows = sorted(files("gpus")), []
    for gpu in gpus:
        for name in NAMES:
            print(f"bench: {name}, {gpu}", file=sys.stderr, flush=True)
            rows.append(compare(name, gpu, block_machine(load_gpu(gpu))))
    record = {
        **facts("modelled", "bench.accelerators.gpu_baselines"),
        "assumptions": [*OWN_ASSUMPTIONS, *ASSUMPTIONS],
        "gpus": gpus,
        "rows": rows,
        "layers": operand_rows(LAYERS_ON),
        "measured": "not run",
        "table_8_4_measured_by_the_paper": TABLE_8_4,
        "reduction_percent_of_the_paper": PAPER_REDUCTION,
    }
    if args.record:
        write("gpu_baselines", record)

    Console().print(Markdown(gpu_baselines(record)))
    for line in record["assumptions"]:
        print(f"- {line}")


if __name__ == "__main__":
    main()
