"""Reports of the divisions of a batch: JSON and a table."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mavcg.choose.algorithms.report.answer import finite, shown_ms
from mavcg.choose.algorithms.select_batch import BatchPlan

if TYPE_CHECKING:
    from rich.console import Console


def batch_json(plans: Sequence[BatchPlan], images: int) -> dict[str, Any]:
    """Return the entry `batch` of `mavcg select --batch --json`; the first division is the one chosen."""
    return {
        "images": images,
        "divisions": [
            {
                "images_at_a_time": plan.at_a_time,
                "threads_each": plan.threads_each,
                "images_a_call": plan.images_a_call,
                "image_ms": [finite(ms) for ms in plan.image_ms],
                "batch_ms": finite(plan.batch_ms),
                "images_per_s": images / plan.batch_ms * 1e3 if plan.batch_ms else None,
            }
            for plan in plans
        ],
    }


def show_batch(plans: Sequence[BatchPlan], images: int, out: "Console") -> None:
    """Print a table of the divisions; the first is the one chosen."""
    from rich.table import Table

    table = Table()
    for title in (
        "images at a time",
        "threads each",
        "images a call",
        "ms an image",
        f"ms of {images} images",
        "images a second",
    ):
        table.add_column(title, justify="right")
    for plan in plans:
        slowest, fastest = max(plan.image_ms), min(plan.image_ms)
        an_image = shown_ms(fastest) if fastest == slowest else f"{shown_ms(fastest)} to {shown_ms(slowest)}"
        rate = f"{images / plan.batch_ms * 1e3:.1f}" if plan.batch_ms else ""
        table.add_row(
            str(plan.at_a_time),
            str(plan.threads_each),
            str(plan.images_a_call),
            an_image,
            shown_ms(plan.batch_ms),
            rate,
        )
    out.print(table)
    best = plans[0]
    contexts = "one context of a library" if best.at_a_time == 1 else f"{best.at_a_time} contexts of one library"
    call = f"{best.images_a_call} image{'s' if best.images_a_call > 1 else ''} a call"
    out.print(f"Least: {contexts}, {call}, threads of each: {best.threads_each}. What follows is for one context.")
