"""Reports of `mavcg build MODEL`, and of `mavcg inspect` for a model library."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mavcg.graph.counts import bounds_words
from mavcg.model.link import ModelResult
from mavcg.model.note import dimensions_json, outputs_json, states_json
from mavcg.model.precision import own_errors_words, precision_words
from mavcg.objects.inspection import versions_text
from mavcg.runtime.companions import companions_sentence
from mavcg.specs.model_program import Program, ThreadPlan

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def model_json(result: ModelResult) -> dict[str, Any]:
    """Return the document of `mavcg build MODEL --json`; sizes are counted."""
    program = result.plan.program
    return {
        "output": str(result.output),
        "target": result.target.zig_name,
        "seconds": round(result.seconds, 3),
        "arena_bytes": program.arena_bytes,
        "arena_lower_bound_bytes": program.arena_lower_bound_bytes,
        "state_bytes": program.state_bytes,
        "memory": memory_json(program),
        "phases": len(program.phases) or len(program.steps),
        "moved_bytes": sum(phase.moved_bytes for phase in program.phases),
        "weight_bytes": program.constants_bytes,
        "code_bytes": result.code_bytes,
        "library_bytes": result.library_bytes,
        "loaded_bytes": result.loaded_bytes,
        "operators": dict(result.operators),
        "kernels": len(result.plan.specs),
        "versions": list(result.note["versions"]),
        "extensions": result.note["extensions"],
        "level_bytes": result.note["level_bytes"],
        "inputs": [{"name": t.name, "type": str(t.type)} for t in program.inputs],
        "outputs": outputs_json(program),
        "states": states_json(program),
        "dimensions": dimensions_json(program),
        "thread_plans": [
            {"threads": plan.threads, "cores": list(plan.cores), "relative_time": plan.relative_time}
            for plan in program.thread_plans
        ],
        "selection": result.note["selection"],
        "primitives": primitives_json(result.note),
        "weights": result.note["weights"],
        "precision": result.note["precision"],
        "files": [str(path) for path in (result.output, *result.companions)],
    }


def memory_json(program: Program) -> dict[str, int]:
    """Return the memory of a run in bytes: arena and states of a context, scratch of each thread, packed weights.

    Weights are read-only and shared by all contexts of a process; a context of T threads takes arena + states + T *
    scratch.
    """
    return {
        "arena_bytes": program.arena_bytes,
        "state_bytes": program.state_bytes,
        "scratch_bytes_per_thread": program.scratch_bytes,
        "weights_bytes": program.constants_bytes,
    }


def tensors_words(tensors: Sequence[Mapping[str, Any]]) -> str:
    """Return a list of tensors as outputs_json has them."""

    def words(tensor: Mapping[str, Any]) -> str:
        counted = f" (each run decides the length of axis {tensor['counted_axis']})" if tensor.get("counted") else ""
        return f"{tensor['name']} {tensor['type']}{counted}"

    return ", ".join(map(words, tensors))


def states_words(states: Sequence[Mapping[str, Any]]) -> str:
    """Return a list of the states as states_json has them."""
    return ", ".join(f"{s['name']} {s['type']} {'in place' if s['in_place'] else 'in two copies'}" for s in states)


def memory_sentence(program: Program) -> str:
    """Return a sentence on the memory of a context with one thread, without the weights that all contexts share."""
    sizes = memory_json(program)
    context = sizes["arena_bytes"] + sizes["state_bytes"] + sizes["scratch_bytes_per_thread"]
    states = f"states {_size(sizes['state_bytes'])}, " if program.states else ""
    return (
        f"{_size(context)} for a context of one thread: arena {_size(sizes['arena_bytes'])} (lower bound "
        f"{_size(program.arena_lower_bound_bytes)}), {states}"
        f"scratch {_size(sizes['scratch_bytes_per_thread'])} per thread"
    )


def phases_words(program: Program) -> str:
    """Return a clause on the computation by parts of rows; "" if there is none."""
    if not program.phases:
        return ""
    moved = sum(phase.moved_bytes for phase in program.phases)
    return f"; by parts of rows: {len(program.phases)} phases, {_size(moved)} moved in a run"


def dimensions_words(dimensions: Mapping[str, Sequence[int]]) -> str:
    """Return a sentence on bounded dimensions, from dimensions_json's value; "" without one."""
    return ", ".join(f"{name}: {bounds_words(*bounds)}, in each run anew" for name, bounds in dimensions.items())


def primitives_json(note: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the primitive of each convolution, and each conversion of layouts, in the order of the steps."""
    primitives: dict[tuple[str, str, str], None] = {}
    for step in note["steps"]:
        if "primitive" in step:
            primitives[step["name"], step["op"], step["primitive"]] = None
    return [{"name": name, "op": op, "primitive": primitive} for name, op, primitive in primitives]


def selection_sentence(note: Mapping[str, Any]) -> str:
    """Return the strategy, with the count of each primitive and conversion."""
    counts = Counter(entry["primitive"] for entry in primitives_json(note))
    words = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    return f"{note['selection']['strategy']}: {words}" if words else f"{note['selection']['strategy']}: no convolutions"


def stored_words(weights: Mapping[str, Any] | None) -> str:
    """Return a clause on weights that lie in memory as f16 or bf16; "" if none was requested.

    weights: entry of precision_json's value.
    """
    if not weights:
        return ""
    layers = ", ".join(weights["layers"]) or "no layer, as none gains time"
    return f"weights in {weights['type']} of {layers}; {_size(weights['saved_bytes'])} less"


def weights_sentence(note: Mapping[str, Any]) -> str:
    """Return a clause on the bytes that packing and transforms add to the convolutions' weights as defined."""
    sizes = note["weights"]
    more = sizes["packed_bytes"] - sizes["definition_bytes"]
    words = f"; of convolutions {_size(sizes['packed_bytes'])}" if sizes["packed_bytes"] else ""
    return f"{words}, {_size(more)} more than as defined" if more else words


def show_model(result: ModelResult, to: "Console") -> None:
    """Print the report of a build."""
    from rich.table import Table

    program = result.plan.program
    operators = ", ".join(f"{count} {op}" for op, count in result.operators.items())
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    rows = {
        "library": f"{result.output} for {result.target.zig_name}, {_size(result.library_bytes)}",
        "versions": ", ".join(result.note["versions"]),
        "inputs": ", ".join(f"{t.name} {t.type}" for t in program.inputs),
        "outputs": tensors_words(outputs_json(program)),
        "bounded": dimensions_words(dimensions_json(program)),
        "operators": operators,
        "kernels": f"{len(result.plan.specs)} in {len(program.steps)} steps",
        "primitives": selection_sentence(result.note),
        "precision": precision_words(result.note["precision"]),
        "stored in half": stored_words(result.note["precision"]["weights"]),
        "errors in f16": own_errors_words(result.note["precision"]),
        "weights": _size(program.constants_bytes) + weights_sentence(result.note),
        "code": f"{_size(result.code_bytes)}, all versions and the engine" + _levels_words(result.note),
        "memory": memory_sentence(program) + phases_words(program),
        "beside it": companions_sentence(program.name, result.companions),
        "time": f"{result.seconds:.1f} s",
    }
    if program.states:
        rows["states"] = states_words(states_json(program))
    if program.thread_plans:
        rows["threads"] = threads_sentence(program.thread_plans)
    for name, value in rows.items():
        if value:
            table.add_row(name, value)
    to.print(table)


def _levels_words(note: Mapping[str, Any]) -> str:
    """Return a clause on the code for machines that hide extensions; "" if there is none."""
    return f"; {_size(note['level_bytes'])} of it for hidden extensions" if note["level_bytes"] else ""


def threads_sentence(plans: Sequence[ThreadPlan]) -> str:
    """Return a sentence on the number of threads that a context chooses, and the time with all of them."""
    best = min(plans, key=lambda plan: (plan.relative_time, plan.threads))
    most = max(plans, key=lambda plan: plan.threads)
    words = f"{best.threads} on {', '.join(best.cores)} are predicted to be the fastest"
    if most.threads == best.threads:
        return words
    return f"{words}; {most.threads} would take {most.relative_time / best.relative_time:.2f} times as long"


def _size(count: int) -> str:
    """Return a size with a unit for people: B, kB or MB."""
    if abs(count) < 10_000:
        return f"{count} B"
    return f"{count / 1e3:.1f} kB" if abs(count) < 1_000_000 else f"{count / 1e6:.2f} MB"


def show_note(note: Mapping[str, Any], to: "Console") -> None:
    """Print the note of a model library as tables (`mavcg inspect`).

    Of a partial library, one subgraph after the other.
    """
    from rich.table import Table

    if "subgraphs" in note or "sizes" in note:  # a partial library, or one of several sizes
        for subgraph in note.get("subgraphs") or note["sizes"]:
            show_note({**subgraph, "code_bytes": note["code_bytes"]}, to)
        return
    to.print(f"model {note['model']}, versions: {versions_text(note)}")
    for key in ("inputs", "outputs"):
        to.print(f"{key}: {tensors_words(note[key])}")
    if note.get("states"):
        to.print(f"states: {states_words(note['states'])}; {_size(note['state_bytes'])}")
    if words := dimensions_words(note.get("dimensions", {})):
        to.print(words)
    to.print("operators: " + ", ".join(f"{count} {op}" for op, count in note["operators"].items()))
    if "precision" in note:  # of libraries of one size
        to.print(f"precision {precision_words(note['precision'])}")
        if words := stored_words(note["precision"].get("weights")):
            to.print(words)
    if "selection" in note:
        to.print(f"primitives, by {selection_sentence(note)}{weights_sentence(note)}")
    to.print(
        f"weights {_size(note['weight_bytes'])}, code {_size(note['code_bytes'])}, arena {_size(note['arena_bytes'])} "
        f"(lower bound {_size(note['arena_lower_bound_bytes'])}), scratch {_size(note['scratch_bytes'])} a thread"
    )
    steps = Table(box=None)
    for name in ("step", "operator", "primitive", "kernel"):
        steps.add_column(name)
    for name in ("rows", "min chunk", "operations"):
        steps.add_column(name, justify="right")
    for step in note["steps"]:
        steps.add_row(
            step["name"],
            step["op"],
            step.get("primitive", ""),
            step["kernel"],
            str(step["rows"]) + (f" x {step['trips']}" if "trips" in step else ""),  # in each iteration of a loop
            str(step["grain"]),
            f"{step['work']:,}",
        )
    to.print(steps)
    to.print(_kernels(note))
    to.print(_macro_tiles(note))


def _kernels(note: Mapping[str, Any]) -> "Table":
    """Return a table of the kernels.

    Layout, packing, and for each version bytes of code and tiles (pixels x vectors).
    """
    from rich.table import Table

    table = Table(box=None, title="kernels: bytes of code and tiles, pixels x vectors", title_justify="left")
    for name in ("kernel", "writes", "weights", *note["versions"]):
        table.add_column(name)
    for name, kernel in note["kernels"].items():
        versions = [kernel["versions"][label] for label in note["versions"]]
        cells = [
            f"as {v['shares_body_with']}" if "shares_body_with" in v else f"{v['bytes']} " + " ".join(v["tiles"])
            for v in versions
        ]
        table.add_row(name, kernel["layout"], kernel["weights"], *(cell.strip() for cell in cells))
    totals = {label: sum(k["versions"][label]["bytes"] for k in note["kernels"].values()) for label in note["versions"]}
    table.add_row("all", "", "", *(str(total) for total in totals.values()))
    return table


def _macro_tiles(note: Mapping[str, Any]) -> "Table":
    """Return a table of the planned macro-tiles of each kernel's versions, with the register tiles inside."""
    from rich.table import Table

    table = Table(box=None, title="macro-tiles; 0: whole dimension, no prefetch, default", title_justify="left")
    for name in ("kernel", "version", "order"):
        table.add_column(name)
    for name in ("rows", "channels", "k block", "prefetch bytes", "rows a call", "parts a row", "min chunk"):
        table.add_column(name, justify="right")
    table.add_column("register tiles")
    for name, kernel in note["kernels"].items():
        for label in note["versions"]:
            version = kernel["versions"][label]
            macro = version.get("macro")
            if macro is not None:
                numbers = ("rows", "out_channels", "k_block", "prefetch_bytes", "task_rows", "parts", "claim_rows")
                table.add_row(
                    name,
                    label,
                    macro["order"],
                    *(str(macro.get(key, 0)) for key in numbers),
                    " ".join(version["tiles"]),
                )
    return table
