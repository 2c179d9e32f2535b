"""Files with the text of plans (docs/plan-text.md): verified, and run on seeded integers."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mavcg.accelerators.plans.text.interpret import CountedTraffic, count_plan, run_plan
from mavcg.accelerators.plans.text.parser import parse_plans
from mavcg.accelerators.plans.text.plan import TextPlan
from mavcg.accelerators.plans.text.verify import verify_plan
from mavcg.errors import MavcgError
from mavcg.files.bounded_read import read_bounded
from mavcg.files.decode import MOST_BYTES

if TYPE_CHECKING:
    from rich.console import Console

LARGEST = 7  # magnitude of the integers that plans are run on: sums of 2^25 products stay within 32 bits


def read_plans(path: Path) -> tuple[TextPlan, ...]:
    """Parse the plans of a text file.

    Raises: MavcgError, naming the line, for a file that cannot be read or does not parse.
    """
    try:
        text = read_bounded(path, MOST_BYTES).decode().replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise MavcgError(f"{path}: cannot be read ({why}); name a file that --emit-ir wrote") from error
    return parse_plans(text, str(path))


def check_file(path: Path) -> list[dict[str, Any]]:
    """Verify the plans of a file and return a row with the moved bytes of each.

    Raises: MavcgError for the first wrong one.
    """
    rows = []
    for plan in read_plans(path):
        verify_plan(plan)
        rows.append({"name": plan.name, "commands": len(plan.commands), "moved_bytes": _moved_bytes(count_plan(plan))})
    return rows


def run_file(path: Path) -> list[dict[str, Any]]:
    """Run each plan of a file on integers from -7 to 7, seeded by its index in the file, and return a row for each.

    checksum: SHA-256 of the output as little-endian 64-bit integers, row-major. Raises: MavcgError for the first wrong
    plan.
    """
    rows = []
    for number, plan in enumerate(read_plans(path)):
        rng = np.random.default_rng(number)
        x = rng.integers(-LARGEST, LARGEST + 1, plan.info.input, dtype=np.int32)
        w = None
        if plan.info.weight is not None:
            w = rng.integers(-LARGEST, LARGEST + 1, plan.info.weight, dtype=np.int32)
        ran = run_plan(plan, x, w)
        digest = hashlib.sha256(np.ascontiguousarray(ran.output, dtype="<i8").tobytes()).hexdigest()
        rows.append(
            {
                "name": plan.name,
                "output_shape": list(ran.output.shape),
                "moved_bytes": _moved_bytes(ran.moved),
                "checksum": digest,
            }
        )
    return rows


def _moved_bytes(moved: CountedTraffic) -> dict[str, int]:
    return {
        "input": moved.input_loaded_bytes,
        "weight": moved.weight_loaded_bytes,
        "output": moved.output_loaded_bytes + moved.output_stored_bytes,
        "output_loaded": moved.output_loaded_bytes,
        "output_stored": moved.output_stored_bytes,
    }


def show_runs(runs: Sequence[dict[str, Any]], out: "Console") -> None:
    """Print a table with a row for each plan."""
    from rich.table import Table

    table = Table("layer", "output", title="plans run; bytes off chip (counted)", title_justify="left")
    for heading in ("input", "weight", "output loaded", "output stored"):
        table.add_column(heading, justify="right")
    table.add_column("checksum")
    for run in runs:
        moved = run["moved_bytes"]
        table.add_row(
            run["name"] or "-",
            "x".join(map(str, run["output_shape"])),
            *(f"{moved[key]:,}" for key in ("input", "weight", "output_loaded", "output_stored")),
            run["checksum"][:16],
        )
    out.print(table)
