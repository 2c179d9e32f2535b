"""What a model library's note says of it: enough for `mavcg inspect` to show it without the model's file."""

from collections import Counter
from typing import Any

from mavcg import __version__
from mavcg.lowering import Lowered


def model_note(lowered: Lowered, versions: tuple[str, ...]) -> dict[str, Any]:
    """The note of a library with these versions ("generic" and core names); sizes in bytes, counted."""
    program, storage = lowered.program, lowered.storage
    return {
        "mavcg": __version__,
        "model": program.name,
        "versions": list(versions),
        "inputs": [{"name": t.name, "type": str(t.type)} for t in program.inputs],
        "outputs": [{"name": t.name, "type": str(t.type)} for t in program.outputs],
        "arena_bytes": program.arena_bytes,
        "arena_lower_bound_bytes": program.arena_lower_bound_bytes,
        "scratch_bytes": program.scratch_bytes,
        "weight_bytes": program.constants_bytes,
        "operators": dict(Counter(node.op for node in storage.graph.nodes).most_common()),
        "steps": [
            {"name": s.name, "op": s.op, "kernel": s.kernel, "rows": s.rows, "grain": s.grain, "work": s.work}
            for s in program.steps
        ],
        "not_moved": len(storage.silent),
    }
