"""Tilings for GPUs beside other planners of the literature: `python -m bench.accelerators.gpu_baselines --record`.

Modelled, for the e-PlaNNer thesis's five networks and the GPUs of profiles/gpus, each as one block's shared memory and
registers (accelerators/plans/machines.py): speed-ups as its table 8.4 has them, less off-chip access as its figure
8.2, and each operand's access of VGG-16's layers as its figure 8.3. The thesis measured on a Jetson TX2; nothing here
is.
"""

import argparse
import sys
from typing import Any

from rich.console import Console
from rich.markdown import Markdown

from bench.accelerators.gpu_tables import LAYERS_OF, LAYERS_ON, gpu_baselines
from bench.accelerators.plan_baselines import ASSUMPTIONS, SEARCHES, compare
from bench.accelerators.thesis_figures import PAPER_REDUCTION, TABLE_8_4
from bench.record import facts, write
from mavcg.accelerators.plans.graph_layers import layers_of
from mavcg.accelerators.plans.machines import block_machine
from mavcg.accelerators.plans.schedule_cache import plan_layers
from mavcg.graph.networks import NAMES, network
from mavcg.profiles.folders import files
from mavcg.profiles.gpus import load_gpu

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
