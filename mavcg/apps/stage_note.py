"""Description of a pipeline in the note of its library."""

from typing import Any

from mavcg.apps.stage_balance import StageBalance
from mavcg.specs.model_program import Program


def pipeline_note(program: Program, balance: StageBalance | None) -> dict[str, Any]:
    """Return a pipeline's stages and the buffers between them; sizes in bytes, times in ms.

    stages: first step and number of steps; cores, threads and time if they were predicted. ring_bytes: of the buffers
    between stages, with all copies.
    """
    stages = []
    for number, stage in enumerate(program.stages):
        own: dict[str, Any] = {
            "partition": f"{program.name}.{number}",
            "first": program.steps[stage.begin].name,
            "first_step": stage.begin,
            "steps": stage.end - stage.begin,
        }
        if balance is not None:
            own |= {"cores": list(stage.cores), "threads": stage.threads, "predicted_ms": round(balance.ms[number], 6)}
        stages.append(own)
    note: dict[str, Any] = {
        "stages": stages,
        "rings": [{"offset": r.offset, "bytes": r.stride, "copies": r.copies} for r in program.rings],
        "ring_bytes": sum(ring.stride * ring.copies for ring in program.rings),
    }
    if balance is not None:
        note["predicted_per_second"] = round(balance.per_second, 3)
    return note
