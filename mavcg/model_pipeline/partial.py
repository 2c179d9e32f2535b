"""Builds the largest subgraphs of an ONNX model that can be built as one library, and writes the model that calls
them in ONNX Runtime: `mavcg build MODEL --partial`."""

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mavcg import __version__
from mavcg.errors import MavcgError
from mavcg.files.scratch import scratch_folder
from mavcg.files.whole_file import write_whole
from mavcg.files.worker_processes import run_tasks
from mavcg.importers.onnx_file import import_model
from mavcg.lowering.kernel_code import kernel_code, kernel_tasks, version_symbols
from mavcg.lowering.machines import machines_for
from mavcg.lowering.pack_weights import pack_weights
from mavcg.lowering.step_list import PlannedModel
from mavcg.model_pipeline.choose_algorithms import AlgorithmChoice
from mavcg.model_pipeline.model import ModelRequest, choose_for, dump, link_with_note, plan_choice
from mavcg.model_pipeline.note import model_note
from mavcg.objects.binaries import loaded_bytes
from mavcg.partial.onnx_subgraphs import OperatorNode, rewritten_model
from mavcg.partial.plan import PartialPlan, plan_subgraphs, read_support
from mavcg.planner.engine.parts import cores_each
from mavcg.planner.engine.tiles import cores_of, plan_tiles
from mavcg.profiles.load import load_cores
from mavcg.runtime.companions import library_stem
from mavcg.runtime.coreset import CoreSet
from mavcg.runtime.drop_in_text import DropInPart, part_symbol, parts_text
from mavcg.runtime.made_with import made_with
from mavcg.runtime.model_build import drop_in_task, engine_tasks, selector_task
from mavcg.runtime.model_text import api_name, default_spin_us
from mavcg.specs.kernel import Machine

if TYPE_CHECKING:
    from rich.console import Console

Progress = Callable[[str], None]


@dataclass(frozen=True)
class PartialRequest:
    """Everything that a partial build depends on. build: as of a whole model; also: where the model that calls the
    library is written; min_share: of the multiply-accumulates, 0 to 1, that a subgraph has at least."""

    build: ModelRequest
    also: Path
    min_share: float


@dataclass(frozen=True)
class PartialResult:
    """The library and the model that were written. planned: the subgraphs, in the plan's order."""

    request: PartialRequest
    plan: PartialPlan[AlgorithmChoice]
    planned: tuple[PlannedModel, ...]
    library_bytes: int
    loaded_bytes: int
    seconds: float


def build_partial(request: PartialRequest, progress: Progress = lambda message: None) -> PartialResult:
    """Build the library and write the model. Raises: MavcgError (bad input, nothing to build) with nothing written."""
    started = time.monotonic()
    build = request.build
    machines = machines_for(build.cores, build.target)
    stem = api_name(library_stem(build.output))
    progress(f"reading {build.model.name}")
    support = read_support(build.model, build.shapes)

    def attempt(model: Any, name: str) -> AlgorithmChoice:
        graph = replace(import_model(model, build.model), name=name)
        dump("import", graph)
        return choose_for(graph, build, machines, progress)

    plan = plan_subgraphs(support, stem, request.min_share, attempt)
    if not plan.subgraphs:
        raise MavcgError(f"{build.model}: {_nothing(plan)}")
    operators = [OperatorNode(each.subgraph, each.name, _fingerprint(each.model)) for each in plan.subgraphs]
    model = rewritten_model(support, operators, build.model.parent)
    planned = _link(request, plan, [operator.fingerprint for operator in operators], machines, progress)
    write_whole(request.also, model.SerializeToString(), "--also")
    return PartialResult(
        request, plan, planned, build.output.stat().st_size, loaded_bytes(build.output), time.monotonic() - started
    )


def _nothing(plan: PartialPlan[AlgorithmChoice]) -> str:
    """State why no subgraph is left to build."""
    most = "; ".join(f"{left.count} {left.op}: {left.why}" for left in plan.left[:3])
    ways = "--shape fixes free dimensions, --min-share 0 takes subgraphs of any size"
    return f"no subgraph can be built ({most}); {ways}"


def _fingerprint(model: Any) -> str:
    """Digest of a subgraph with its weights."""
    return hashlib.sha256(model.SerializeToString(deterministic=True)).hexdigest()[:32]


def _link(
    request: PartialRequest,
    plan: PartialPlan[AlgorithmChoice],
    fingerprints: Sequence[str],
    machines: Mapping[str, Machine],
    progress: Progress,
) -> tuple[PlannedModel, ...]:
    """Compile all subgraphs, which share kernels, and link the library. Returns their programs."""
    build = request.build
    choices = [each.made for each in plan.subgraphs]
    specs = tuple(dict.fromkeys(spec for choice in choices for spec in choice.lowered.specs))
    clusters = cores_of(tuple(machines), build.target, build.board)
    tiles = plan_tiles(specs, machines, clusters, cores_each(tuple(machines), build.board))
    dump("plan_tiles", tiles)
    planned = tuple(plan_choice(choice, build, machines, clusters, tiles, progress) for choice in choices)
    core_set, defined = CoreSet(build.cores), version_symbols(specs, tuple(machines))
    parts = [DropInPart(each.program, mark) for each, mark in zip(planned, fingerprints, strict=True)]
    with scratch_folder("mavcg-model-") as folder:
        others = [
            drop_in_task(parts_text(build.output.name, parts), build.target, folder),
            selector_task(core_set, load_cores(), build.target, folder),
        ]
        for i, each in enumerate(planned):
            (folder / str(i)).mkdir()
            others += engine_tasks(
                each.program, partial(pack_weights, each.memory, each.lowered.graph.constants), defined, core_set,
                build.target, folder / str(i), build.threads, default_spin_us(build.board), part_symbol(each.program),
            )  # fmt: skip
        tasks = kernel_tasks(specs, machines, build.cores, build.target, folder, build.tuning, tiles)
        made: list[Any] = run_tasks([*others, *tasks], build.workers, progress)
        kernels = kernel_code(made[len(others) :], machines, tiles)
        dump("generate_code", kernels)
        notes = [model_note(each, kernels, choice.selection) for each, choice in zip(planned, choices, strict=True)]
        note = {
            "mavcg": __version__,
            "model": library_stem(build.output),
            "weight_bytes": sum(each.program.constants_bytes for each in planned),
            "subgraphs": notes,
            "made_with": made_with(build.model),
        }
        link_with_note([*kernels.objects, *made[: len(others)]], note, build, folder, progress)
    return planned


def partial_json(result: PartialResult) -> dict[str, Any]:
    """The document of `mavcg build MODEL --partial --json`; sizes and multiply-accumulates are counted."""
    plan, build = result.plan, result.request.build
    nodes = plan.support.nodes
    return {
        "output": str(build.output),
        "also": str(result.request.also),
        "target": build.target.zig_name,
        "seconds": round(result.seconds, 3),
        "library_bytes": result.library_bytes,
        "loaded_bytes": result.loaded_bytes,
        "weight_bytes": sum(each.program.constants_bytes for each in result.planned),
        "subgraphs": [
            {
                "name": each.name,
                "nodes": len(each.subgraph.nodes),
                "macs": each.macs,
                "macs_share": plan.share(each.macs),
                "arena_bytes": planned.program.arena_bytes,
                "inputs": [{"name": t.name, "type": str(t.type)} for t in planned.program.inputs],
                "outputs": [{"name": t.name, "type": str(t.type)} for t in planned.program.outputs],
                "operators": dict(Counter(nodes[i].node.op_type for i in each.subgraph.nodes).most_common()),
            }
            for each, planned in zip(plan.subgraphs, result.planned, strict=True)
        ],
        "left": [{"op": left.op, "count": left.count, "why": left.why} for left in plan.left],
        "macs": plan.macs,
        "macs_share": plan.share(sum(each.macs for each in plan.subgraphs)),
        "nodes_with_unknown_macs": plan.unknown_macs,
    }


def show_partial(result: PartialResult, to: "Console") -> None:
    """A screen for people: subgraphs, then what stays with the runtime and why."""
    from rich.table import Table

    document = partial_json(result)
    to.print(f"{document['output']} for {document['target']}, {document['library_bytes'] / 1e6:.2f} MB")
    to.print(f"{document['also']}: the model that calls it")
    table = Table(box=None)
    for name in ("subgraph", "inputs", "outputs"):
        table.add_column(name)
    for name in ("nodes", "MACs", "share"):
        table.add_column(name, justify="right")
    for each in document["subgraphs"]:
        ends = [", ".join(f"{t['name']} {t['type']}" for t in each[what]) for what in ("inputs", "outputs")]
        table.add_row(each["name"], *ends, str(each["nodes"]), f"{each['macs']:,}", f"{each['macs_share']:.1%}")
    to.print(table)
    unknown = document["nodes_with_unknown_macs"]
    more = f"; of {unknown} more nodes they are known only in a run" if unknown else ""
    to.print(f"{document['macs_share']:.1%} of {document['macs']:,} MACs{more}")
    if not document["left"]:
        to.print("nothing stays with the runtime")
        return
    left = Table(box=None, title="what stays with the runtime", title_justify="left")
    left.add_column("nodes", justify="right")
    left.add_column("operator")
    left.add_column("why")
    for each in document["left"]:
        left.add_row(str(each["count"]), each["op"], each["why"])
    to.print(left)
