"""The precision of a model's arithmetic: what is requested, what the cores have, and the graph that follows."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from math import inf, isfinite
from typing import Any

from mavcg.choose.plan import Plan
from mavcg.errors import MavcgError
from mavcg.graph import Graph, Node
from mavcg.graph.ops.nodes import verify
from mavcg.hardware.core import Core
from mavcg.kernels.registry import single_inputs
from mavcg.model.calibration import RANDOM, calibration_words
from mavcg.passes.graph.pipeline import optimise
from mavcg.passes.graph.precision import in_half, in_single
from mavcg.passes.graph.rewrite import Dump
from mavcg.runtime.machines import cores_without_half

F32, F16, BF16, AUTO_PRECISION = "f32", "f16", "bf16", "auto"
PRECISIONS = (F32, F16, BF16, AUTO_PRECISION)
MAX_HALF_ERROR = 0.01  # limit of AUTO_PRECISION's measured error, if none is given


def parse_precision(text: str | None, cores: Sequence[Core]) -> str:
    """Return the precision that --precision names, f32 by default. auto: f16 where it keeps a limit on the error.

    Raises: MavcgError for an unknown one, and for f16 where a core has no arithmetic of f16.
    """
    precision = text or F32
    if precision not in PRECISIONS:
        raise MavcgError(f"--precision {text}: give {', '.join(PRECISIONS[:-1])} or {PRECISIONS[-1]}")
    if precision == F16 and (without := cores_without_half(cores)):
        names = ", ".join(without)
        raise MavcgError(
            f"--precision {F16}: {names} {'has' if len(without) == 1 else 'have'} no arithmetic of half precision "
            f"(FEAT_FP16, AVX512-FP16); leave it out for {F32}, or name other --cores"
        )
    return precision


def used_precision(precision: str, cores: Sequence[Core]) -> str:
    """Return the precision of a build for these cores: f32 for auto if one of them has no arithmetic of f16."""
    return F32 if precision == AUTO_PRECISION and cores_without_half(cores) else precision


def needs_half_cores(precision: str) -> bool:
    """Return True if kernels need arithmetic of f16; those of bf16 run on every core."""
    return precision in (F16, AUTO_PRECISION)


def optimised_graph(graph: Graph, precision: str, dump: Dump | None = None) -> Graph:
    """Return a graph after all passes that are the same for every core; for another precision than f32 wholly in f32.

    dump: as of passes/graph/pipeline.py.
    """
    return optimise(graph if precision == F32 else in_single(graph), dump)


def half_graph(graph: Graph, single: Set[str] = frozenset(), dtype: str = F16) -> Graph:
    """Return an optimised f32 graph with all nodes in f16, or in bf16, that have kernels for it.

    single: outputs of nodes that stay f32.
    """

    def inputs_in_single(node: Node, graph: Graph) -> Sequence[int] | None:
        return None if node.output in single else single_inputs(node, graph)

    lowered = in_half(graph, inputs_in_single, dtype)
    verify(lowered)
    return lowered


def layer_precisions(plan: Plan) -> dict[str, str]:
    """Return the type in which each layer with floats computes, by its name in the user's file.

    A layer of several steps, or of several nodes of the same name, is f16 or bf16 only if all of them are.
    """
    types, layers = plan.lowered.graph.types, dict[str, str]()
    for step in plan.lowered.steps:
        node = step.node
        dtypes = {types[name].dtype for name in (*node.inputs[:1], *node.outputs) if name} & {F16, BF16, F32}
        if node.op != "cast" and dtypes:
            dtype = F32 if F32 in dtypes else min(dtypes)
            layers[step.name] = F32 if layers.get(step.name) == F32 else dtype
    return layers


def own_errors_json(graph: Graph, own: Mapping[str, float]) -> dict[str, float | None]:
    """Return the largest own error of each layer's nodes, by its name in the user's file; None for an infinite one.

    own: by a node's output (OwnErrors).
    """
    errors = dict[str, float]()
    for node in graph.nodes:
        if node.output in own:
            name = node.origin or node.output
            errors[name] = max(own[node.output], errors.get(name, 0.0))
    return {name: error if isfinite(error) else None for name, error in errors.items()}


def precision_json(plan: Plan, requested: str, cores: Sequence[Core] = ()) -> dict[str, Any]:
    """Return what a build's document says of precision.

    requested: of PRECISIONS. cores: of the build; "without_half" names those for which AUTO_PRECISION is f32.
    """
    without = cores_without_half(cores) if requested == AUTO_PRECISION else ()
    unmeasured: dict[str, Any] = {
        "max_error": None,
        "measured_error": None,
        "overflows": [],
        "own_errors": {},
        "weights": None,
    }
    words = {"requested": requested, "layers": layer_precisions(plan), "without_half": list(without)}
    return words | unmeasured | dict(plan.precision)


def precision_words(precision: Mapping[str, Any]) -> str:
    """Return the line of a report on precision_json's value."""
    layers = list(precision["layers"].values())
    dtype = BF16 if precision["requested"] == BF16 else F16
    words = f"{precision['requested']}: {layers.count(dtype)} of {len(layers)} layers in {dtype}"
    if precision.get("without_half"):
        return f"{words}: no arithmetic of half precision on {', '.join(precision['without_half'])}"
    if precision.get("overflows"):
        return f"{words}; numbers of {precision['overflows'][0]} exceed the range of {dtype}: leave --precision out"
    if precision.get("measured_error") is not None:
        inputs = calibration_words(precision.get("calibration", str(RANDOM)), precision.get("input_sets", 1))
        words += f", error {precision['measured_error']:.2g} of the largest output, {inputs}"
    return words


WORST_LAYERS = 3


def own_errors_words(precision: Mapping[str, Any]) -> str:
    """Return a list of the layers with the largest errors of their own, each with the type that it has; "" if
    none was measured. precision: precision_json's value."""
    types = precision["layers"]
    errors = {n: inf if error is None else error for n, error in precision["own_errors"].items() if n in types}
    worst = sorted(errors, key=lambda name: -errors[name])[:WORST_LAYERS]
    figures = (f"{errors[name]:.2g}" if isfinite(errors[name]) else "overflow" for name in worst)
    return ", ".join(f"{name} {figure} (is {types[name]})" for name, figure in zip(worst, figures, strict=True))


def set_precision(plan: Plan, precision: str, single: Set[str] = frozenset()) -> Plan:
    """Return the plan with its optimised graph in f32, f16 or bf16. single: outputs of nodes that stay f32."""
    return plan if precision == F32 else replace(plan, graph=half_graph(plan.graph, single, precision))


def products_of_lengths(graphs: Sequence[Graph], precision: str) -> Set[str]:
    """Return outputs of products that stay f32 in f16: of two computed matrices whose sizes differ between graphs.

    graphs: optimised, of several lengths of one model, with equal names. Sums of f16 are cut into blocks by the number
    of their terms, so that no kernel of f16 reads these sizes in a run.
    """
    most = graphs[0]
    found = [node for node in most.nodes if node.op == "matmul"] if precision == F16 else []
    products = [node for node in found if not any(name in most.constants for name in node.inputs[:2])]

    def sizes(graph: Graph, node: Node) -> list[tuple[int, ...]]:
        return [graph.types[name].shape[-2:] for name in (*node.inputs[:2], node.output)]

    return {node.output for node in products if any(sizes(graph, node) != sizes(most, node) for graph in graphs[1:])}
