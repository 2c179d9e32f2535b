"""What a model library's note says of it: enough for `mavcg inspect` to show it without the model's file."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from mavcg import __version__
from mavcg.graph import Node
from mavcg.kernel import KernelSpec, View
from mavcg.kernel_code import KernelCode, version_symbol
from mavcg.kernels.emit import kernel_name
from mavcg.kernels.primitives.convert import find_conversion
from mavcg.layout import Layout
from mavcg.lowering import Lowered
from mavcg.predict.work import step_works
from mavcg.selection.library import primitive_of
from mavcg.tile_plan import MacroTile
from mavcg.weight_sizes import weight_sizes


def model_note(lowered: Lowered, kernels: KernelCode, selection: Mapping[str, Any]) -> dict[str, Any]:
    """The note of a library with these kernels; sizes in bytes, counted.

    steps: each with what `mavcg estimate` needs: multiply-accumulates, and the bytes that it touches.
    kernels: by name, with the layout of what it writes, the packing of its weights, its spec in words, and for each
    version ("generic" and core names) bytes of machine code, kinds of tiles, and its macro-tile where it was planned.
    selection: by which strategy primitives and layouts were chosen, and what came of it; "primitive" of a step: what it
    is a stage of, or the conversion between layouts.
    """
    program, storage = lowered.program, lowered.storage
    sizes = kernels.code_bytes()
    return {
        "mavcg": __version__,
        "model": program.name,
        "versions": list(kernels.tiles),
        "inputs": [{"name": t.name, "type": str(t.type)} for t in program.inputs],
        "outputs": [{"name": t.name, "type": str(t.type)} for t in program.outputs],
        "arena_bytes": program.arena_bytes,
        "arena_lower_bound_bytes": program.arena_lower_bound_bytes,
        "scratch_bytes": program.scratch_bytes,
        "weight_bytes": program.constants_bytes,
        "operators": dict(Counter(node.op for node in storage.graph.nodes).most_common()),
        "kernels": {kernel_name(spec): _kernel(spec, kernels, sizes) for spec in lowered.specs},
        "steps": [
            {"name": s.name, "op": s.op, "kernel": s.kernel, "rows": s.rows, "grain": s.grain, "work": s.work}
            | work.as_json()
            | _primitive(node, lowered)
            for s, work, node in zip(program.steps, step_works(lowered), lowered.nodes, strict=True)
        ],
        "not_moved": len(storage.silent),
        "selection": dict(selection),
        "weights": asdict(weight_sizes(lowered)),
    }


def _primitive(node: Node, lowered: Lowered) -> dict[str, str]:
    """The primitive that a node's steps belong to, under "primitive"; nothing where there is none."""
    if node.op == "primitive_conv2d":
        return {"primitive": str(node.attr("primitive"))}
    if node.op == "convert_layout":
        ends = (Layout(node.attr(name)) for name in ("layout_from", "layout_to"))
        return {"primitive": find_conversion(*ends).name}
    graph = lowered.storage.graph
    if node.op != "conv2d" or graph.types[node.output].dtype != "f32" or node.inputs[1] not in graph.constants:
        return {}
    return {"primitive": primitive_of(node, graph, lowered.ways.get(node.output, ""))}


def _kernel(spec: KernelSpec, kernels: KernelCode, sizes: dict[str, int]) -> dict[str, Any]:
    name = kernel_name(spec)
    return {
        "layout": layout_of(spec),
        "weights": packing_of(spec),
        "spec": repr(spec),
        "versions": {
            label: {"bytes": sizes.get(version_symbol(name, label), 0), "tiles": list(tiles.get(name, ()))}
            | _macro(kernels.plan.of(name, label))
            for label, tiles in kernels.tiles.items()
        },
    }


def _macro(macro: MacroTile | None) -> dict[str, Any]:
    """A version's macro-tile under "macro", by the names of its fields; nothing where none was planned."""
    return {} if macro is None else {"macro": asdict(macro)}


def layout_of(spec: KernelSpec) -> str:
    """How what the kernel writes lies in memory: "NHWC", "row-major", with ", inside a larger buffer" where a padded or
    concatenated tensor is around it; "" for kernels that say nothing of it."""
    view = getattr(spec, "out", None)
    if not isinstance(view, View):
        return ""
    return ("NHWC" if len(view.shape) == 4 else "row-major") + ("" if view.dense else ", inside a larger buffer")


def packing_of(spec: KernelSpec) -> str:
    """How the kernel's weights are packed; "" where it has none, or reads them as they lie."""
    lanes = getattr(spec, "lanes", 0)
    return f"panels of {lanes}" if lanes and getattr(spec, "packed", True) else ""
