"""Every convolution primitive against its definition, on generated scenarios: `python -m bench.primitive_scenarios`.

Takes about an hour of a CPU. `--family F` (again for another one) checks these only and keeps what the record has of
the others; `--missing` goes on where a run was stopped, and with `--since` what was checked before counts as missing.
`--part 1/2` and `--part 2/2`, started together, share the work and the record.
"""

import argparse
import datetime
import fcntl
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.record import facts, write
from bench.rows import ROWS, measured_or_none
from mavcg.kernels.primitives.registry import all_primitives
from mavcg.lab.trials.check import CheckCase, Checked, check_all
from mavcg.lab.trials.emulation import qemu
from mavcg.lab.trials.run import find_machine
from mavcg.runtime.machines import block_of
from mavcg.specs.primitive import Primitive
from tests.kernels.primitives.cases import OPTIMISED_EVERY, cases_of, checked_scenarios, scenarios_of

NAME = "primitive_scenarios"
SCENARIOS = 200
EMULATED = ("cortex-a55", "cortex-a76")
DATE = "%Y-%m-%d %H:%M"  # of a row, UTC; as text in the order of time
SAMPLE_PRIMITIVES, SAMPLE_SCENARIOS = 6, 5  # of each family


def on_host(primitive: Primitive, count: int) -> dict[str, Any]:
    """Return one primitive's row, run on this machine."""
    host = find_machine("host")
    checks = list(checked_scenarios(primitive, scenarios_of(primitive, count), host))
    return {
        "name": primitive.name,
        "family": primitive.family,
        **_counted(checks),
        "error_bound": primitive.error_bound,
    }


def emulated(family: Sequence[Primitive]) -> dict[str, Any]:
    """Return the row of a sample of a family on two emulated AArch64 cores, whose bits must be the same."""
    chosen = family[:: -(-len(family) // SAMPLE_PRIMITIVES)]
    machines = [find_machine(core) for core in EMULATED]
    cases = [
        case
        for primitive in chosen
        for case in cases_of(primitive, scenarios_of(primitive, SAMPLE_SCENARIOS, seed=1), block_of(machines[0]))
    ]
    by_machine = [check_all(cases, machine) for machine in machines]
    different = [first.case for first, second in zip(*by_machine, strict=True) if first.bits != second.bits]
    counted = _counted([checked for of_machine in by_machine for checked in of_machine])
    counted["failures"] += [f"{_words(case)}: other bits on {' and '.join(EMULATED)}" for case in different]
    counted["failed"] += len(different)
    return {"family": family[0].family, "primitives": len(chosen), "cores": list(EMULATED), **counted}


def _counted(checks: Sequence[Checked]) -> dict[str, Any]:
    wrong = [checked for checked in checks if not checked.ok]
    return {
        "scenarios": len(checks),
        "failed": len(wrong),
        "largest_error": float(f"{max(checked.max_error for checked in checks):.3g}"),
        "largest_share_of_bound": round(max(checked.max_error / checked.bound for checked in checks), 3),
        "failures": [f"{_words(c.case)}: error {c.max_error:.3g}; {'; '.join(c.faults)}" for c in wrong],
    }


def _words(case: CheckCase) -> str:
    return f"{case.primitive.name} {case.scenario} {case.epilogue} seed {case.seed}"


def table(primitives: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a table with a row for each family."""
    families = list(dict.fromkeys(row["family"] for row in primitives))
    return [
        {
            "family": family,
            "primitives": len(rows),
            "scenarios_each": min(row["scenarios"] for row in rows),
            "failed": sum(row["failed"] for row in rows),
            "largest_error": max(row["largest_error"] for row in rows),
            "largest_share_of_bound": max(row["largest_share_of_bound"] for row in rows),
        }
        for family in families
        if (rows := [row for row in primitives if row["family"] == family])
    ]


def _say(name: str, row: dict[str, Any]) -> None:
    line = f"{name}: {row['failed']} failed, largest error {row['largest_error']}"
    print(line, *row["failures"], sep="\n  ", file=sys.stderr, flush=True)


@contextmanager
def _alone() -> Iterator[None]:
    """Lock the record against other parts of the run."""
    ROWS.mkdir(parents=True, exist_ok=True)
    folder = os.open(ROWS, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _recorded() -> dict[str, list[dict[str, Any]]]:
    """Return the record's rows, in the order of the primitive library."""
    recorded = measured_or_none(NAME)
    return {name: recorded.get(name, []) for name in ("emulated", "by_primitive")}


def _written(head: dict[str, Any], key: str, row: dict[str, Any], by: str, order: Sequence[str]) -> Path:
    """Put a row into the record in place of the one with the same `by`; other rows stay."""
    dated = {**row, "date": datetime.datetime.now(datetime.UTC).strftime(DATE)}
    with _alone():
        lists = _recorded()
        lists[key] = [*(recorded for recorded in lists[key] if recorded[by] != row[by]), dated]
        lists[key].sort(key=lambda recorded: order.index(recorded[by]))
        return write(NAME, {**head, "rows": table(lists["by_primitive"]), **lists})


def part_of(words: str) -> tuple[int, int]:
    """Return (0, 2) for "1/2". Raises: argparse.ArgumentTypeError for other text."""
    number, slash, count = words.partition("/")
    if not (slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise argparse.ArgumentTypeError(f"{words!r}: give a part as 1/2 or 2/2")
    return int(number) - 1, int(count)


def main() -> None:
    """Check; write bench/results/primitive_scenarios.json after each primitive. Exit status 1 if a result is wrong."""
    known = all_primitives()
    families = list(dict.fromkeys(primitive.family for primitive in known))
    names = [primitive.name for primitive in known]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", action="append", choices=families, help="only this one")
    parser.add_argument("--missing", action="store_true", help="only what the record does not have yet")
    parser.add_argument("--since", default="", metavar="DATE", help="with --missing: such as '2026-11-21 19:55', UTC")
    parser.add_argument("--part", type=part_of, default=(0, 1), help="of the primitives: 1/2 or 2/2")
    parser.add_argument("--count", type=int, default=SCENARIOS, help="scenarios for each primitive on this machine")
    asked = parser.parse_args()
    head = {**facts("counted", f"bench.{NAME}"), "optimised_every": OPTIMISED_EVERY}
    failed = 0
    have = _recorded() if asked.missing else {"emulated": [], "by_primitive": []}
    there = {
        row.get("name", row["family"]) for rows in have.values() for row in rows if row.get("date", "") >= asked.since
    }
    part, parts = asked.part
    mine = [primitive for primitive in known[part::parts] if primitive.name not in there]
    for number, family in enumerate(families):
        if asked.family and family not in asked.family:
            continue
        members = [primitive for primitive in mine if primitive.family == family]
        if qemu() is not None and family not in there and number % parts == part:
            sample = emulated([primitive for primitive in known if primitive.family == family])
            failed += sample["failed"]
            _say(f"{family}, emulated", sample)
            _written(head, "emulated", sample, "family", families)
        for primitive in members:
            row = on_host(primitive, asked.count)
            failed += row["failed"]
            _say(primitive.name, row)
            _written(head, "by_primitive", row, "name", names)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
