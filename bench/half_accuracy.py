"""Errors of whole networks in half precision against f64: `python -m bench.half_accuracy [NETWORK ..] [--record]`.

Each network computes one set of random inputs: all layers in f16 (sums in blocks, as its kernels add, and in f16
throughout, as ncnn's and MNN's do), all in bf16, and in f16 but for the layers that `--precision auto` must leave in
f32 for its usual limit; predicted times are not asked. Errors are the largest difference of an output, relative to the
output's largest number, from the f32 graph in double precision; a layer that makes an infinite number in f16 is named.
Nothing is timed and nothing is compiled: the figures are the same on every machine. Without names it takes all of
NETWORKS; those that cannot be had are left out, and named.
"""

import argparse
from dataclasses import asdict, dataclass
from math import isinf

from bench.models import model_path, shapes_of
from bench.record import facts, write
from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.graph.reference.half import THROUGHOUT, rounds_terms
from mavcg.importers.load import import_model
from mavcg.model.calibration import RANDOM, calibration_sets
from mavcg.model.precision import BF16, F16, MAX_HALF_ERROR, optimised_graph
from mavcg.model.precision_choice import choose_half_layers
from mavcg.model.precision_error import MeasuredError, measure_error
from mavcg.text.terminal import say

# Of all kinds, the quick ones first: faces, text, classifiers of 50 million to 20 thousand million products.
NETWORKS = (
    "blazeface",
    "ppocr_cls",
    "face_landmark",
    "shufflenet-random",
    "mnasnet_1.0-random",
    "mobilenet_v2",
    "squeezenet-random",
    "efficientnet_lite0",
    "mobilenet_v1-random",
    "mnasnet_1.3-random",
    "hand_landmark",
    "nasnet_mobile-random",
    "alexnet-random",
    "zfnet512-random",
    "inception_v1-random",
    "inception_v2-random",
    "densenet121-random",
    "resnet50-random",
    "inception_v3-random",
    "vgg19-random",
)


@dataclass(frozen=True)
class HalfErrors:
    """A network's errors; None where they cannot be measured, or are infinite.

    throughout: of f16 with sums in f16 throughout; None where sums are taken as exact (rounds_terms). overflows: the
    first layer that makes an infinite number in f16, and how many do; "" without any. auto_single: nodes that auto
    leaves in f32. nodes: those that f16 kernels can compute.
    """

    network: str
    f16: float | None
    throughout: float | None
    overflows: str
    bf16: float | None
    auto: float | None
    auto_single: int
    nodes: int


def errors_of(graph: Graph, network: str) -> HalfErrors:
    """Return the errors of an optimised f32 graph."""
    sets = calibration_sets(graph, RANDOM)
    half, upper = (choose_half_layers(graph, None, sets, quiet, dtype) for dtype in (F16, BF16))
    auto, error, infinite = half, half.error.relative, half.error.overflows
    if error is not None and error > MAX_HALF_ERROR:
        auto = choose_half_layers(graph, MAX_HALF_ERROR, sets, quiet)
    nodes = nodes_in_half(half.graph)
    throughout = measure_error(half.graph, half.runs, THROUGHOUT) if rounds_terms(half.graph) else MeasuredError(None)
    return HalfErrors(
        network,
        finite(half.error),
        finite(throughout),
        f"{infinite[0]}, {len(infinite)} in all" if infinite else "",
        finite(upper.error),
        finite(auto.error),
        nodes - nodes_in_half(auto.graph),
        nodes,
    )


def nodes_in_half(graph: Graph) -> int:
    """Return the number of nodes that compute in f16."""
    return sum(node.op != "cast" and graph.types[node.output].dtype == "f16" for node in graph.nodes)


def finite(error: MeasuredError) -> float | None:
    """Return an error; None where it is infinite or unknown."""
    return None if error.relative is None or isinf(error.relative) else error.relative


def quiet(message: str) -> None:
    """Ignore a message of progress."""


def row_of(network: str) -> HalfErrors:
    """Import and optimise a network, and return its errors. Raises: MavcgError where it cannot be had."""
    graph = import_model(model_path(network), shapes_of(network))
    return errors_of(optimised_graph(graph, F16), network)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help="of bench.models; all of NETWORKS where none")
    parser.add_argument("--record", action="store_true", help="write bench/results/half_accuracy.json")
    options = parser.parse_args()
    rows, missing = list[HalfErrors](), list[str]()
    for network in options.networks or NETWORKS:
        try:
            rows.append(row_of(network))
            say(f"{rows[-1]}")
        except MavcgError as error:
            missing.append(network)
            say(f"{network}: {error}")
    if options.record:
        command = " ".join(("bench.half_accuracy", *options.networks, "--record"))
        head = facts("counted", command) | {"limit": MAX_HALF_ERROR, "missing": missing}
        say(f"the record is {write('half_accuracy', head | {'rows': [*map(asdict, rows)]})}")


if __name__ == "__main__":
    main()
