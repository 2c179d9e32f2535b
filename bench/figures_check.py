"""Find records of figures that are older than the code they are about: `python -m bench.figures_check`.

Each record contains digests of its code (bench/subjects.py states which code that is). If today's code has other
digests, the figure may not hold any more. Measure it again; or, if the change cannot affect the figure or this machine
cannot measure it, state why it stays: `--keep NAME .. --why TEXT`. The reason appears in the record and below its
table, and holds for today's code only. Exit status 1 if a record is older than its code without a reason.
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

RESULTS = ROOT / "bench/results"
SHORTEST_REASON = 20  # characters: "ok" is no reason


@dataclass(frozen=True)
class State:
    """State of a record against the code.

    folders: where the code differs; empty if the record was made with today's code. why: the reason, given for exactly
    this code, why an older record is kept. fault: why the record cannot be judged; it then counts as older than its
    code.
    """

    name: str
    folders: tuple[str, ...] = ()
    why: str | None = None
    fault: str | None = None

    @property
    def passes(self) -> bool:
        return self.fault is None and (not self.folders or self.why is not None)


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
    now = code_of(subject, root)
    folders = tuple(changed(then, now))
    kept = record.get("kept")
    why = kept["why"] if folders and kept is not None and kept["code"] == now else None
    return State(path.stem, folders, why)


def keep(results: Path, names: Sequence[str], why: str, subjects: Mapping[str, Subject], root: Path = ROOT) -> None:
    """Write into records why they are kept although the code has changed.

    Raises: ValueError for a reason that is too short, an unknown record, or a record that was made with today's code.
    """
    if len(why.strip()) < SHORTEST_REASON:
        raise ValueError(f"--why {why!r}: says too little; name what changed and why the figures stay")
    known = {state.name: state for state in states(results, subjects, root)}
    for name in names:
        state = known.get(name)
        if state is None or state.fault is not None:
            raise ValueError(f"{name}: {state.fault if state else 'there is no such record'}")
        if not state.folders:
            raise ValueError(f"{name}: is of the code of today; there is nothing to say")
    for name in names:
        path = results / f"{name}.json"
        record = json.loads(path.read_text(encoding="utf-8"))
        record["kept"] = {"why": why.strip(), "code": code_of(subjects[name], root)}
        path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def with_code(name: str, record: Mapping[str, Any]) -> dict[str, Any]:
    """Add the digests of its code to a record, and drop the reason for keeping it.

    Raises: KeyError for an unknown subject.
    """
    return {key: value for key, value in record.items() if key != "kept"} | {"code": code_of(SUBJECTS[name])}


def line(state: State) -> str:
    """Return one line of text about a record."""
    if state.fault is not None:
        return f"{state.name}: {state.fault}"
    if not state.folders:
        return f"{state.name}: of the code of today"
    more = f"; kept: {state.why}" if state.why else f"; run its command again, or --keep {state.name} --why '...'"
    return f"{state.name}: older than the code of {', '.join(state.folders)}{more}"


def main(arguments: Sequence[str]) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", nargs="+", metavar="NAME", help="records that stay although the code has changed")
    parser.add_argument("--why", metavar="TEXT", help="with --keep: what changed, and why the figures stay")
    parser.add_argument("--all", action="store_true", help="list the records that are in order too")
    options = parser.parse_args(arguments)
    if (options.keep is None) != (options.why is None):
        parser.error("--keep and --why belong together")
    if options.keep is not None:
        try:
            keep(RESULTS, options.keep, options.why, SUBJECTS)
        except ValueError as error:
            print(f"figures: {error}", file=sys.stderr)
            return 2
    record_states = states(RESULTS, SUBJECTS)
    for state in record_states:
        if options.all or not state.passes:
            print(f"figures: {line(state)}")
    older = sum(bool(state.folders) and state.passes for state in record_states)
    failed = sum(not state.passes for state in record_states)
    print(f"figures: {len(record_states)} records, {older} kept with a reason, {failed} to be made anew")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
