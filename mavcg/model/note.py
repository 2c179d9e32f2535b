"""The note of a model library, from which `mavcg inspect` describes it without the model's file."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, astuple
from typing import Any

from mavcg import __version__
from mavcg.choose.algorithms.library import primitive_of
from mavcg.choose.lowering.kernel_code import KernelCode, version_symbol
from mavcg.choose.lowering.lower import LoweredGraph, weight_sizes
from mavcg.choose.plan import Plan
from mavcg.choose.predict.layer_works import layer_works
from mavcg.choose.predict.program_work import step_works
from mavcg.graph import Node
from mavcg.graph.layout import Layout
from mavcg.hardware.core import GENERIC
from mavcg.kernels.builder.emit import kernel_name
from mavcg.kernels.int8.im2row import eight_bit_primitive
from mavcg.kernels.primitives.convert import find_conversion
from mavcg.runtime.kernel_versions import versions_of
from mavcg.specs.kernel import KernelSpec
from mavcg.specs.model_program import Program
from mavcg.specs.serialize import FORMAT, to_json
from mavcg.specs.tile_plan import MacroTile, Order


def model_note(plan: Plan, kernels: KernelCode) -> dict[str, Any]:
    """Return the note of a library with these kernels; sizes are counted, in bytes.

    steps: with what `mavcg estimate` needs: multiply-accumulates, and bytes touched; "limit": the least work, for the
    limits of `mavcg bench --limit` (cost/limit.py). "primitive" of a step: the
    primitive that it is a stage of, or the conversion of layouts. kernels: by name, with the layout that it writes, the
    packing of its weights, its spec (specs/serialize.py, in spec_format), and for each version ("generic", cores, and
    their feature levels in the order in which they are tried) bytes of machine code of its own, kinds of tiles,
    extensions that its instructions need, its macro-tile if planned, and the version that it shares code with, if any.
    extensions: those that each version's kernels need in all. level_bytes: code of all feature levels. selection: the
    strategy that selected primitives and layouts, and its result. dimensions: bounds of a bounded dimension, for whose
    longest length shapes, rows and work are. depth_first: layers by bands of rows, if any.
    """
    program, lowered = plan.program, plan.lowered
    sizes = kernels.code_bytes()
    works = step_works(plan)
    of_specs = {kernel_name(spec): _kernel(spec, kernels, sizes) for spec in lowered.specs}
    return {
        "mavcg": __version__,
        "model": program.name,
        "versions": list(kernels.tiles),
        "inputs": [{"name": t.name, "type": str(t.type)} for t in program.inputs],
        "outputs": outputs_json(program),
        "states": states_json(program),
        "state_bytes": program.state_bytes,
        "arena_bytes": program.arena_bytes,
        "arena_lower_bound_bytes": program.arena_lower_bound_bytes,
        "scratch_bytes": program.scratch_bytes,
        "weight_bytes": program.constants_bytes,
        "operators": dict(Counter(node.op for node in lowered.graph.nodes).most_common()),
        "spec_format": FORMAT,
        "kernels": of_specs,
        "extensions": {
            label: sorted({name for kernel in of_specs.values() for name in kernel["versions"][label]["extensions"]})
            for label in kernels.tiles
        },
        "level_bytes": sum(
            kernel["versions"][core.name]["bytes"] for kernel in of_specs.values() for core in kernels.levels
        ),
        "steps": [
            {"name": s.name, "op": s.op, "kernel": s.kernel, "rows": s.rows, "grain": s.min_chunk_rows, "work": s.work}
            | work.as_json()
            | least.as_json()
            | _primitive(node, lowered)
            for s, work, least, node in zip(program.steps, works, layer_works(plan, works), lowered.nodes, strict=True)
        ],
        "not_moved": len(lowered.storage.silent),
        "selection": dict(plan.selection),
        "weights": asdict(weight_sizes(lowered)),
        "dimensions": dimensions_json(program),
    } | ({"depth_first": [band.as_json() for band in plan.bands]} if plan.bands else {})


def outputs_json(program: Program) -> list[dict[str, Any]]:
    """Return name and type of each output; of one of whose length each run decides, with the most of it in its type,
    "counted": true and the axis."""
    return [
        {"name": t.name, "type": str(t.type)}
        | ({} if t.counted_axis is None else {"counted": True, "counted_axis": t.counted_axis})
        for t in program.outputs
    ]


def states_json(program: Program) -> list[dict[str, Any]]:
    """Return name and type of each state. "in_place": it has one copy, which a run reads and writes."""
    return [{"name": s.name, "type": str(s.type), "in_place": s.in_place} for s in program.states]


def dimensions_json(program: Program) -> dict[str, list[int]]:
    """Return the bounds of a program's bounded dimensions by name, {"tokens": [1, 512]}, with their steps,
    {"height": [32, 512, 32]}; {} for fixed shapes."""
    return {dimension.name: list(dimension.bounds) for dimension in program.dimensions}


def _primitive(node: Node, lowered: LoweredGraph) -> dict[str, str]:
    """Return {"primitive": name} for a node's steps; empty if the node has no primitive."""
    if node.op == "primitive_conv2d":
        return {"primitive": str(node.attr("primitive"))}
    if node.op == "convert_layout":
        ends = (Layout(node.attr(name)) for name in ("layout_from", "layout_to"))
        return {"primitive": find_conversion(*ends).name}
    graph = lowered.graph
    if node.op == "qconv2d" and node.inputs[1] in graph.constants:
        return {"primitive": eight_bit_primitive(node, graph, lowered.algorithms.get(node.output, ""))}
    if node.op != "conv2d" or graph.types[node.output].dtype == "f64" or node.inputs[1] not in graph.constants:
        return {}
    return {"primitive": primitive_of(node, graph, lowered.algorithms.get(node.output, ""))}


def _kernel(spec: KernelSpec, kernels: KernelCode, sizes: Mapping[str, int]) -> dict[str, Any]:
    name = kernel_name(spec)
    run = dict(zip((GENERIC, *kernels.core_set.names), versions_of(name, kernels.needs, kernels.core_set), strict=True))
    return {
        "layout": layout_of(spec),
        "weights": packing_of(spec),
        "spec": to_json(spec),
        "versions": {
            label: {
                "bytes": sizes.get(version_symbol(name, label), 0),
                "tiles": list(kernels.tiles[label].get(name, ())),
                "extensions": sorted(kernels.needs[symbol]),
            }
            | macro_json(kernels.plan.of(name, label))
            | _shared_body(symbol, version_symbol(name, label))
            for label, symbol in run.items()
        },
    }


def _shared_body(symbol: str, own: str) -> dict[str, str]:
    """Return {"shares_body_with": label} of a version that runs another one's code; empty for a version with its
    own."""
    return {} if symbol == own else {"shares_body_with": symbol.rpartition(".")[2]}


# Keys of a macro-tile in notes, in the order of MacroTile's fields; they do not change when a field is renamed.
# 0 in a note means None.
_MACRO_KEYS = (
    "rows",
    "out_channels",
    "k_block",
    "order",
    "pack_lanes",
    "prefetch_bytes",
    "task_rows",
    "tile_channels",
    "parts",
    "claim_rows",
)


def macro_json(macro: MacroTile | None) -> dict[str, Any]:
    """Return {"macro": macro-tile} of a version; empty if none was planned."""
    return {} if macro is None else {"macro": {key: value or 0 for key, value in _by_key(macro).items()}}


def macro_from_note(entry: Mapping[str, Any]) -> MacroTile:
    """Return the macro-tile of a note's entry "macro"; missing keys have their fields' defaults."""
    values = {**_by_key(MacroTile()), **entry}
    arguments: list[Any] = [values[key] or None for key in _MACRO_KEYS]
    arguments[_MACRO_KEYS.index("order")] = Order(values["order"])
    return MacroTile(*arguments)


def _by_key(macro: MacroTile) -> dict[str, Any]:
    return dict(zip(_MACRO_KEYS, astuple(macro), strict=True))


def layout_of(spec: KernelSpec) -> str:
    """Return the layout of the tensor that the kernel writes: "NHWC" or "row-major"; "" for kernels without one.

    ", inside a larger buffer" is appended for a tensor inside a padded or concatenated one.
    """
    view = spec.out_view
    if view is None:
        return ""
    return ("NHWC" if len(view.shape) == 4 else "row-major") + ("" if view.dense else ", inside a larger buffer")


def packing_of(spec: KernelSpec) -> str:
    """Return the packing of the kernel's weights; "" if it has none, or reads them unpacked."""
    return f"panels of {spec.panel_channels}" if spec.panel_channels else ""
