"""The records of fuzzing in bench/results/: executions of each target, which add up over runs, and the runs by date."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench import records
from bench.record import facts, write
from bench.records import RESULTS
from bench.tables.robustness import FUZZ_RUNS, FUZZ_TARGETS

ALL = "all targets"
NAMES = {"Python": "fuzz_targets", "C": "fuzz_c_targets"}  # language -> its record


@dataclass(frozen=True)
class Ran:
    """The result of a target's run.

    executions: inputs run. edges, features: that they reached, as libFuzzer counts them. corpus: inputs kept.
    fault: the last lines of its output, or "" where there was none. language: Python or C. reached, lines: lines of the
    target's readers that its corpora reach, of how many; 0, 0 where they are not counted.
    """

    target: str
    language: str
    executions: int
    edges: int
    features: int
    corpus: int
    seconds: float
    fault: str
    reached: int = 0
    lines: int = 0

    @property
    def share(self) -> str:
        """The share of the readers' lines that are reached, or ""."""
        return f"{self.reached / self.lines:.0%} of {self.lines} lines" if self.lines else ""


def record(results: Sequence[Ran], command: str) -> None:
    """Add results to the records of their languages; those of other targets and earlier runs stay."""
    for language, name in NAMES.items():
        if new := [result for result in results if result.language == language]:
            head = facts("counted", command)
            targets, runs = _recorded_rows(name)
            targets = targets_with(targets, new)
            runs = runs_with(runs, new, head["date"][:10], head["commit"])
            write(name, head | {"language": language, "targets": targets, "runs": runs})


def _recorded_rows(name: str) -> tuple[list[Sequence[str]], list[Sequence[str]]]:
    """Return the rows below FUZZ_TARGETS and below FUZZ_RUNS of a record; none where there is no record."""
    path = RESULTS / f"{name}.json"
    tables = {table.head: list(table.rows) for table in records.read(path).tables} if path.is_file() else {}
    return [row for row in tables.get(FUZZ_TARGETS, ()) if row[0] != ALL], list(tables.get(FUZZ_RUNS, ()))


def targets_with(rows: Sequence[Sequence[str]], new: Sequence[Ran]) -> list[Sequence[str]]:
    """Return the rows below FUZZ_TARGETS with new results: executions are added, all else is of a target's last run."""
    known = {row[0]: row for row in rows}
    for result in new:
        before = int(known[result.target][1]) if result.target in known else 0
        lines = f"{result.reached} of {result.lines}" if result.lines else "-"
        cells = (before + result.executions, result.edges, lines, result.corpus, int(bool(result.fault)))
        known[result.target] = (result.target, *map(str, cells))
    ordered = [known[target] for target in sorted(known)]
    executions, faults = (sum(int(row[at]) for row in ordered) for at in (1, 5))
    return [*ordered, (ALL, str(executions), "", "", "", str(faults))]


def runs_with(rows: Sequence[Sequence[str]], new: Sequence[Ran], date: str, commit: str) -> list[Sequence[str]]:
    """Return the rows below FUZZ_RUNS with new results, the newest above.

    A row is of a date, YYYY-MM-DD, and a commit; faults are named.
    """
    executions, faults = 0, [f"{result.target}: {_fault_name(result.fault)}" for result in new if result.fault]
    others = []
    for row in rows:
        if tuple(row[:2]) == (date, commit):
            executions, faults = int(row[2]), [fault for fault in (row[3],) if fault != "0"] + faults
        else:
            others.append(row)
    executions += sum(result.executions for result in new)
    return [(date, commit, str(executions), "; ".join(faults) or "0"), *others]


def _fault_name(fault: str) -> str:
    """Return the line of a report that says what a fault is, as a cell of a table."""
    lines = [line.strip(" =") for line in fault.splitlines()]
    named = lines[1] if lines[0].startswith("Uncaught Python exception") and len(lines) > 1 else lines[0]
    return named[:120].replace("|", "\\|")
