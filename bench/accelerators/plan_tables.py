"""The planner's searches on the paper's five networks and setups A to D.

python -m bench.accelerators.plan_tables          prints table 8.5 and what its pruning loses, writes plan_tables.json
python -m bench.accelerators.plan_tables --json   prints the record instead and writes nothing
"""

import json
from collections.abc import Callable, Iterable, Sequence
from time import perf_counter
from typing import Any

from bench.record import facts, parser_with_json, write
from bench.tables.catalogue import print_record
from mavcg.accelerators.plans import grid, space
from mavcg.accelerators.plans.graph_layers import layers_of
from mavcg.accelerators.plans.roofline import performance_per_access
from mavcg.accelerators.plans.space import Planned
from mavcg.cost.layer import ConvLayer
from mavcg.cost.traffic import no_reload
from mavcg.graph.networks import NAMES, network
from mavcg.hardware.accelerator import Accelerator
from mavcg.profiles.accelerators import find_accelerator

SETUPS = ("setup-a", "setup-b", "setup-c", "setup-d")

# e-PlaNNer, table 8.5, as printed: non-pruned in millions, then setups A to D.
PRINTED = {
    "vgg16": ("3541.530", 27_552, 25_536, 25_536, 23_184),
    "resnet50": ("298.074", 41_040, 21_984, 23_232, 12_864),
    "alexnet": ("645.980", 5_310, 405, 645, 645),
    "squeezenet": ("49.388", 4_596, 1_530, 4_596, 4_530),
    "yolov2": ("4104.669", 89_937, 83_409, 89_937, 80_133),
}


def space_rows(accelerators: Sequence[Accelerator]) -> list[dict[str, Any]]:
    """Return table 8.5: convolutions only, every layer counted as often as the network has it."""
    rows = []
    for name in NAMES:
        layers = layers_of(network(name, paper_variant=True), fully_connected=False)
        unpruned = sum(map(space.unpruned_size, layers))
        sizes = [sum(grid.pruned_size(layer, accelerator) for layer in layers) for accelerator in accelerators]
        made = (f"{unpruned / len(layers) / 1e6:.3f}", *sizes)
        rows.append(
            {
                "network": name,
                "convolutions": len(layers),
                "unpruned_of_a_layer_millions": made[0],
                "unpruned_of_all": unpruned,
                "pruned_of_all": sizes,
                "as_printed": [a == b for a, b in zip(made, PRINTED[name], strict=True)],
            }
        )
    return rows


def search_rows(accelerators: Sequence[Accelerator]) -> list[dict[str, Any]]:
    """Return the loss by pruning.

    Bytes of all layers, fully connected ones included, by the paper's metric and equation 6.1. Layers of the same
    tensors are searched once. Tiles have to fit with their halo.
    """
    rows = []
    for name in NAMES:
        layers = layers_of(network(name, paper_variant=True))
        keys = [layer.key for layer in layers]
        for accelerator in accelerators:
            some, some_s = _timed(keys, accelerator, grid.search_pruned)
            all_, all_s = _timed(keys, accelerator, grid.search_exhaustively)
            pairs = [(some[key], all_[key]) for key in keys]
            ratios = [performance_per_access(b.reached) / performance_per_access(a.reached) for a, b in pairs]
            rows.append(
                {
                    "network": name,
                    "setup": accelerator.name,
                    "layers": len(layers),
                    "no_reload_bytes": sum(no_reload(layer).total_bytes for layer in layers),
                    "pruned_bytes": sum(_bytes(a) for a, _ in pairs),
                    "exhaustive_bytes": sum(_bytes(b) for _, b in pairs),
                    "layers_missed": sum(_bytes(a) > _bytes(b) for a, b in pairs),
                    "worst_layer": layers[ratios.index(max(ratios))].name,
                    "worst_metric_ratio": round(max(ratios), 3),
                    "pruned_candidates": sum(a.candidates for a, _ in pairs),
                    "exhaustive_candidates": sum(b.candidates for _, b in pairs),
                    "pruned_seconds": round(some_s, 3),
                    "exhaustive_seconds": round(all_s, 3),
                }
            )
    return rows


def _bytes(planned: Planned) -> int:
    return planned.reached.traffic.total_bytes


def _timed(
    keys: Iterable[ConvLayer], accelerator: Accelerator, search: Callable[[ConvLayer, Accelerator], Planned]
) -> tuple[dict[ConvLayer, Planned], float]:
    start = perf_counter()
    plans = {key: search(key, accelerator) for key in dict.fromkeys(keys)}
    return plans, perf_counter() - start


def main(arguments: Sequence[str] | None = None) -> None:
    """Count and search; print, and write bench/results/plan_tables.json."""
    parser = parser_with_json(__doc__, "the record as JSON, write nothing")
    options = parser.parse_args(arguments)
    accelerators = [find_accelerator(name) for name in SETUPS]
    spaces, searches = space_rows(accelerators), search_rows(accelerators)
    record = facts("modelled, but for the seconds", "bench.accelerators.plan_tables") | {
        "spaces": spaces,
        "searches": searches,
    }
    if options.json:
        print(json.dumps(record, indent=2))
        return
    write("plan_tables", record)
    print_record("plan_tables", record)


if __name__ == "__main__":
    main()
