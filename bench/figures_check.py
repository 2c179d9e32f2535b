"""Find records of figures that are older than the code they are about: `python -m bench.figures_check`.

Each record contains digests of its code (bench/subjects.py states which code that is). If today's code has other
digests, the figure may not hold any more: measure it again, or mark it: `--mark` writes "old" into all such records,
and their tables then say so, until they are measured again. No reason excuses an old figure. Exit status 1 if a record
is older than its code and not marked, or if it cannot be judged.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.code_digest import ROOT, Subject, changed, code_of
from bench.subjects import SUBJECTS
from mavcg.files.whole_file import write_whole

RESULTS = ROOT / "bench/results"


@dataclass(frozen=True)
class State:
    """State of a record against the code.

    folders: where the code differs; empty if the record was made with today's code. marked: True if the record says
    that it is old. fault: why the record cannot be judged.
    """

    name: str
    folders: tuple[str, ...] = ()
    marked: bool = False
    fault: str | None = None

    @property
    def passes(self) -> bool:
        return self.fault is None and (not self.folders or self.marked)


def states(results: Path, subjects: Mapping[str, Subject], root: Path = ROOT) -> list[State]:
    """Return the state of every record of a folder.

    A subject without a record is not an error: it may not be recorded yet.
    """
    return [_state(path, subjects.get(path.stem), root) for path in sorted(results.glob("*.json"))]


def _state(path: Path, subject: Subject | None, root: Path) -> State:
    if subject is None:
        return State(path.stem, fault="bench/subjects.py does not say what code it is about; add an entry")
    record = json.loads(path.read_text(encoding="utf-8"))
    then = record.get("code")
    if then is None:
        return State(path.stem, fault="has no digests of the code that it was made with; make it anew")
    return State(path.stem, tuple(changed(then, code_of(subject, root))), bool(record.get("old")))


def mark(results: Path, record_states: Sequence[State]) -> list[str]:
    """Write "old" into the records whose code has changed, and return their names.

    A mark stays until the record is made anew, even if the code becomes what it was.
    """
    names = [state.name for state in record_states if state.folders and not state.marked]
    for name in names:
        path = results / f"{name}.json"
        record = json.loads(path.read_text(encoding="utf-8"))
        write_whole(path, json.dumps(_unmarked(record) | {"old": True}, indent=2) + "\n")
    return names


def _unmarked(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record without its mark, and without the reason that earlier versions of this check wrote."""
    return {key: value for key, value in record.items() if key not in ("old", "kept")}


def with_code(name: str, record: Mapping[str, Any]) -> dict[str, Any]:
    """Add the digests of its code to a record, and drop the mark of an old one.

    Raises: KeyError for an unknown subject.
    """
    return _unmarked(record) | {"code": code_of(SUBJECTS[name])}


def line(state: State) -> str:
    """Return one line of text about a record."""
    if state.fault is not None:
        return f"{state.name}: {state.fault}"
    if not state.folders:
        return f"{state.name}: of the code of today{', but marked as old: run its command again' * state.marked}"
    remedy = "marked as old" if state.marked else "run its command again, or mark it by --mark"
    return f"{state.name}: older than the code of {', '.join(state.folders)}; {remedy}"


def main(arguments: Sequence[str]) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mark", action="store_true", help="mark records that are older than their code as old")
    parser.add_argument("--all", action="store_true", help="list the records that are in order too")
    options = parser.parse_args(arguments)
    record_states = states(RESULTS, SUBJECTS)
    if options.mark and (names := mark(RESULTS, record_states)):
        print(f"figures: marked as old: {', '.join(names)}; put that into the page: python -m bench.tables --update")
        record_states = states(RESULTS, SUBJECTS)
    for state in record_states:
        if options.all or not state.passes:
            print(f"figures: {line(state)}")
    older = sum(state.marked for state in record_states)
    failed = sum(not state.passes for state in record_states)
    print(f"figures: {len(record_states)} records, {older} marked as old, {failed} to be made anew or marked")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
