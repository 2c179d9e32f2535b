"""The evaluation of joint memory (Minakova's thesis, section 6.6), repeated.

python -m bench.apps.joint_memory [--json]

Table 6.6: six applications without reduction, with buffers shared within each CNN ([76]), with all layers by parts and
nothing shared ([65]), and joint, under the paper's limits. Table 6.8: four applications of Table 6.7 by precision,
sizes only. Bytes are counted; frames per second are modelled for a board of mavcg's, not for the paper's.
"""

import json
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench.apps.joint_networks import densenet121, efficientnet_b0, inception_v2, mobilenet_v1
from bench.record import facts, parser_with_json, write
from mavcg.accelerators.networks import mobilenet_v2, resnet50, with_seeded_weights
from mavcg.apps.application import Application, Partition, sequential
from mavcg.apps.derivation import LayerId
from mavcg.apps.model_network import PRECISIONS, network_of
from mavcg.apps.models import cut_network, predict_layers
from mavcg.apps.plan import ApplicationPlan, plan_application
from mavcg.apps.search import Constraints, GeneticLimits
from mavcg.apps.throughput import LayerTime, balanced_cuts
from mavcg.graph import Graph
from mavcg.hosts.host import find_board
from mavcg.passes.graph.pipeline import optimise
from mavcg.text.terminal import say
from mavcg.toolchain.codegen import default_workers

BOARD = "exynos9820"
_NETWORKS: Mapping[str, Callable[[], Graph]] = {
    "mobilenet_v2": mobilenet_v2,
    "efficientnet_b0": efficientnet_b0,
    "inception_v2": inception_v2,
    "mobilenet_v1_025": partial(mobilenet_v1, 0.25),
    "mobilenet_v1": mobilenet_v1,
    "resnet50": resnet50,
    "densenet121": densenet121,
}
Times = Mapping[LayerId, LayerTime]


@dataclass(frozen=True)
class Evaluated:
    """An application of the paper.

    stages: partitions of its CNNs that run at the same time. paper: MB without reduction, by [76], by [65]; limits: M^c
    in MB (0 for the least), each with the paper's MB under it.
    """

    name: str
    networks: tuple[str, ...]
    stages: int
    paper: tuple[float, float, float]
    limits: tuple[tuple[float, float], ...]


APPLICATIONS = (
    Evaluated("1 MobileNet V2", ("mobilenet_v2",), 1, (58.63, 20.32, 16.2), ((25, 20.32), (15, 14.98), (0, 14.9))),
    Evaluated(
        "2 EfficientNet B0", ("efficientnet_b0",), 1, (161.33, 39.14, 42.97), ((150, 39.14), (40, 39.14), (0, 27.3))
    ),
    Evaluated(
        "3 MobileNet V2, pipelined", ("mobilenet_v2",), 2, (61.69, 20.32, 17.38), ((30, 30), (15, 15.92), (0, 15.92))
    ),
    Evaluated(
        "4 EfficientNet B0, pipelined",
        ("efficientnet_b0",),
        2,
        (163.65, 39.14, 44.18),
        ((150, 45), (50, 45), (0, 31.34)),
    ),
    Evaluated(
        "5 Inception V2, MobileNet V1 0.25, ResNet V1 50",
        ("inception_v2", "mobilenet_v1_025", "resnet50"),
        1,
        (380, 175, 226),
        ((200, 175), (0, 162)),
    ),
    Evaluated(
        "6 DenseNet121, MobileNet V1 1.0, ResNet V1 50",
        ("densenet121", "mobilenet_v1", "resnet50"),
        1,
        (625, 291, 184),
        ((500, 161), (0, 155)),
    ),
)
# Table 6.7 with its limits in MB.
QUANTISED = (
    ("MobileNet V2", ("mobilenet_v2",), 1, 8),
    ("ResNet-50", ("resnet50",), 1, 26),
    ("MobileNet V2, pipelined", ("mobilenet_v2",), 2, 30),
    ("MobileNet V2, ResNet-50", ("mobilenet_v2", "resnet50"), 1, 30),
)


def application(
    names: tuple[str, ...], stages: int, graphs: Mapping[str, Graph], times: Times, precision: str = "fp32"
) -> Application:
    """Return an application of networks that run one after the other, each a pipeline of so many partitions."""
    cnns = tuple(network_of(graphs[name], name, precision) for name in names)
    parts = list[Partition]()
    pipelines = list[frozenset[str]]()
    for cnn in cnns:
        own = cut_network(cnn, balanced_cuts(cnn, times, stages)) if stages > 1 else [sequential(cnn)]
        parts += own
        pipelines += [frozenset(p.name for p in own)] if stages > 1 else []
    return Application(cnns, tuple(parts), tuple(pipelines))


def sizes(planned: ApplicationPlan) -> dict[str, Any]:
    """Return the bytes of weights and of buffers by every method."""
    return {
        "weights_bytes": planned.weights,
        "naive_bytes": planned.naive,
        "reuse_per_cnn_bytes": planned.reuse_per_cnn,
        "reuse_joint_bytes": planned.reuse_joint,
        "parts_everywhere_bytes": planned.parts,
    }


def chosen(planned: ApplicationPlan) -> dict[str, Any]:
    """Return the solution that the plan chooses for a limit."""
    best = planned.front[planned.chosen]
    return {
        "arena_bytes": best.arena.size,
        "lower_bound_bytes": best.arena.lower_bound,
        "throughput": {name: round(fps, 2) for name, fps in best.throughput.items()},
        "layers_by_parts": sum(count > 1 for count in best.phases.values()),
        "meets": planned.meets,
    }


def evaluated(row: Evaluated, graphs: Mapping[str, Graph], times: Times, limits: GeneticLimits) -> dict[str, Any]:
    """Return an application's row of Table 6.6."""
    app, within_limits, planned = application(row.networks, row.stages, graphs, times), list[dict[str, Any]](), None
    for megabytes, paper in row.limits:
        say(f"{row.name}: {f'{megabytes:g} MB' if megabytes else 'least memory'}")
        start = time.process_time()
        planned = plan_application(app, times, Constraints(megabytes * 1e6, {}), limits)
        seconds = round(time.process_time() - start, 2)
        within_limits.append({"limit_mb": megabytes, "paper_mb": paper, **chosen(planned), "cpu_s": seconds})
    assert planned is not None  # every application has limits
    return {
        "application": row.name,
        "layers": sum(len(cnn.layers) for cnn in app.cnns),
        **sizes(planned),
        "paper_mb": dict(zip(("naive", "reuse_per_cnn", "parts_everywhere"), row.paper, strict=True)),
        "limits": within_limits,
    }


def by_precision(graphs: Mapping[str, Graph], times: Times, limits: GeneticLimits) -> list[dict[str, Any]]:
    """Return the sizes of Table 6.7's applications in each of Table 6.8's precisions: the least memory."""
    rows = []
    for name, networks, stages, megabytes in QUANTISED:
        for precision in PRECISIONS:
            say(f"{name}: {precision}")
            app = application(networks, stages, graphs, times, precision)
            planned = plan_application(app, {}, Constraints(None, {}), limits)
            best = planned.front[0].arena
            rows.append(
                {
                    "application": name,
                    "precision": precision,
                    **sizes(planned),
                    "arena_bytes": best.size,
                    "limit_mb": megabytes,
                    "meets": planned.weights + best.size <= megabytes * 1e6,
                }
            )
    return rows


def graphs_and_times(names: Collection[str]) -> tuple[dict[str, Graph], dict[LayerId, LayerTime]]:
    """Return networks by name, and the modelled time of each of their layers on the board."""
    graphs, times, board = dict[str, Graph](), dict[LayerId, LayerTime](), find_board(BOARD)
    for name in (name for name in _NETWORKS if name in names):
        graphs[name] = optimise(with_seeded_weights(_NETWORKS[name]()))
        times |= predict_layers(network_of(graphs[name], name), graphs[name], board, default_workers(), say)
    return graphs, times


def main() -> None:
    """Make both tables; print them as JSON if asked, and record them if nothing was left out."""
    parser = parser_with_json(__doc__, "the rows")
    parser.add_argument(
        "--only",
        metavar="N",
        choices=[row.name[0] for row in APPLICATIONS],
        help="one application of Table 6.6 by its number; writes no record",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the genetic search; another than 0 writes no record")
    options = parser.parse_args()
    limits = GeneticLimits(seed=options.seed)
    selected = [row for row in APPLICATIONS if options.only in (None, row.name[0])]
    needed = set(_NETWORKS) if options.only is None else {name for row in selected for name in row.networks}
    graphs, times = graphs_and_times(needed)
    rows = [evaluated(row, graphs, times, limits) for row in selected]
    precisions = by_precision(graphs, times, limits) if options.only is None else []
    if options.json:
        print(json.dumps({"rows": rows, "precisions": precisions}, indent=2))
    if options.only is None and options.seed == 0:
        head = facts("modelled", "bench.apps.joint_memory")
        path = write("joint_memory", head | {"board": BOARD, "rows": rows, "precisions": precisions})
        say(f"the record is {path}")


if __name__ == "__main__":
    main()
