"""The e-PlaNNer thesis's networks beside its tables 4.1 and 8.1: `python -m bench.accelerators.plan_networks [--json]`.

Counted, from the graphs that mavcg/planner/networks builds. What the paper calls MB is MiB of f32 weights without
biases; its "Gflops" are 2^30 multiply-accumulates, not operations a second.
"""

from typing import Any

from bench.record import facts, parser_with_json, write
from bench.tables.catalogue import show_record
from mavcg.accelerators.plans.graph_layers import layers_of
from mavcg.accelerators.plans.schedule_cache import schedules
from mavcg.graph import Graph
from mavcg.graph.networks import NAMES, network, yolov2

# Uncached, cached (table 4.1; AlexNet, which repeats no layer, is not in it).
TABLE_4_1 = {"vgg16": (16, 12), "resnet50": (50, 21), "squeezenet": (26, 18), "yolov2": (23, 15)}
# MB, "Gflops", layers (table 8.1).
TABLE_8_1 = {
    "vgg16": (527.741, 14.408, 16),
    "resnet50": (86.723, 4.536, 50),
    "alexnet": (237.914, 1.057, 8),
    "squeezenet": (4.698, 1.0, 26),
    "yolov2": (194.265, 27.898, 23),
}
WHY = {
    ("4.1", "yolov2"): "the paper counts one more than there are different tensor parameters",
    ("8.1", "squeezenet"): "the paper's 1.0 is not the work of these layers, whose weights are exactly its size",
    ("8.1", "yolov2"): "the paper has its second convolution as 1x1",
}


def sharing(name: str) -> dict[str, Any]:
    """A network's row of table 4.1."""
    uncached, cached = schedules(layers_of(network(name, paper_variant=True)))
    return {
        "network": name,
        "uncached": uncached,
        "cached": cached,
        "paper": TABLE_4_1.get(name),
        "repeated_percent": round(100 * (1 - cached / uncached), 3),
        "note": WHY.get(("4.1", name), ""),
    }


def work(name: str, variant: str, graph: Graph) -> dict[str, Any]:
    """A network's row of table 8.1."""
    layers = layers_of(graph)
    mac = sum(layer.macs for layer in layers)
    of_paper = TABLE_8_1[name] if variant == "paper" else None
    return {
        "network": name,
        "variant": variant,
        "weights_mib": round(sum(layer.weight_elements for layer in layers) * 4 / 2**20, 3),
        "gibi_mac": round(mac / 2**30, 3),
        "mac": mac,
        "layers": len(layers),
        "paper": of_paper,
        "note": WHY.get(("8.1", name), "") if variant == "paper" else "",
    }


def main() -> None:
    """Count, print, and write bench/results/plan_networks.json."""
    parser = parser_with_json(__doc__, "the record instead of tables")
    args = parser.parse_args()
    shared = [sharing(name) for name in NAMES]
    sizes = [work(name, "paper", network(name, paper_variant=True)) for name in NAMES]
    sizes.append(work("yolov2", "paper, conv2 as 1x1", yolov2(paper_variant=True, conv2_kernel=1)))
    sizes += [work(name, "usual", network(name)) for name in NAMES]
    counted = [row for row in shared if row["paper"]]
    mean = sum(row["repeated_percent"] for row in counted) / len(counted)
    record = {
        **facts("counted", "bench.accelerators.plan_networks"),
        "table_4_1": shared,
        "table_8_1": sizes,
        "mean_repeated_percent": {"ours": round(mean, 3), "paper": 37.14},
    }
    write("plan_networks", record)
    show_record("plan_networks", record, args.json)


if __name__ == "__main__":
    main()
