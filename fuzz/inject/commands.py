"""Failures of files and processes, by number, in a command: `python -m fuzz.inject.commands "SCENARIO" FOLDER SECONDS`.

It runs with files.c preloaded (run.py). Each plan is tried in a forked copy of this process. The verdict is right where
the command ended with 0 and wrote what it does without a failure; refused where it ended with 2, with one line of words
and nothing left behind but whole files; wrong otherwise, or where a second run, without a failure, does not work.
"""

import errno
import itertools
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fuzz.inject.contents import is_part
from fuzz.inject.sandbox import PROCESSES_LEFT, Files, Plan, Sandbox
from fuzz.inject.scenarios import SCENARIOS

# The errors of each kind, the likeliest first: all kinds are tried with their first error before any with a second.
KINDS: Mapping[str, tuple[int, ...]] = {
    "write": (errno.ENOSPC, errno.EIO),
    "rename": (errno.ENOSPC, errno.EACCES),
    "fork": (errno.EAGAIN, errno.ENOMEM),
    "exec": (errno.EACCES, errno.EMFILE),
    "link": (errno.EACCES, errno.EIO),
    "mkdir": (errno.ENOSPC, errno.EACCES),
    "open": (errno.EACCES, errno.EMFILE, errno.ENOSPC),
    "unlink": (errno.EACCES, errno.EIO),
}
VERDICTS = ("right", "refused", "wrong")
_SHOWN = 600  # characters of a faulty command's words


@dataclass
class Verdicts:
    """Verdicts on the failures of one kind with one error, counted.

    first_untried: the number of the first call for which the time was over; 0: there is none.
    """

    kind: str
    error: int
    counts: Counter[str] = field(default_factory=Counter)
    first_untried: int = 0


def _is_whole(sandbox: Sandbox, expected: Files, name: str, content: bytes) -> bool:
    """Return whether a file that a refused command left is one that it writes, or a database on its way there."""
    wholes = [files[name] for files in (expected, sandbox.plain) if name in files]
    return content in wholes or (name in sandbox.scenario.grows and is_part(content, wholes))


def _lasting_files(sandbox: Sandbox, removes: bool) -> Files:
    """Return the files that a command wrote; where nothing could be removed, without temporary ones."""
    written = sandbox.new_files()
    if removes:
        return written
    return {name: written[name] for name in written if ".mavcg-" not in name and not name.endswith("-journal")}


def fault_of(sandbox: Sandbox, expected: Files, removes: bool, status: int, said: str) -> str:
    """Return what is wrong after a run in which calls failed; "" where it is right or refused.

    removes: False where it could not list or remove files: what is temporary may stay.
    """
    if status == -1:
        return "it hangs"
    if "Traceback" in said:
        return "a traceback"
    if said.endswith(PROCESSES_LEFT):
        return "it leaves processes"
    written = _lasting_files(sandbox, removes)
    if status == 0 and written != expected and (not sandbox.plain or written != sandbox.plain):
        return f"it ends with 0, but its files differ: {sorted(written.items() ^ expected.items())[:1]!r:.80}"
    if status not in (0, *sandbox.scenario.refusals):
        return f"exit status {status}"
    if status and not said.strip().splitlines()[-1:]:
        return "it says nothing"
    if halves := [name for name in written if not _is_whole(sandbox, expected, name, written[name])]:
        return f"it leaves {', '.join(halves)}"
    if removes and (left := sandbox.leftovers()):
        return f"it leaves {', '.join(left)}"
    # What helpers know is in no file.
    state = None if sandbox.scenario.helpers else (removes, sandbox.state())
    if state in sandbox.recovered:
        return ""
    status, said, _ = sandbox.run()
    if status:
        return f"a second run ends with {status}: {said.strip()[-200:]}"
    written = _lasting_files(sandbox, removes)
    grown = {name for name in sandbox.scenario.grows if is_part(expected.get(name, b""), [written.get(name, b"")])}
    if other := sorted(name for name in {*written, *expected} - grown if written.get(name) != expected.get(name)):
        return f"a second run writes others: {', '.join(other)}"
    if state:
        sandbox.recovered.add(state)
    return ""


def try_plan(name: str, sandbox: Sandbox, expected: Files, plan: Plan) -> str:
    """Try one plan. Returns right, refused or wrong, or "" where no call failed."""
    sandbox.reset()
    status, said, failed = sandbox.run(plan)
    if not failed:
        return ""
    removes = plan.kind != "unlink" and not (plan.kind == "open" and plan.onwards)
    fault = fault_of(sandbox, expected, removes, status, said)
    if not fault:
        return "refused" if status else "right"
    where = f"{name}: {plan.kind} {plan.at}{' and on' if plan.onwards else ''}, {os.strerror(plan.error)}"
    print(f"{where}: {fault}\n{said.strip()[-_SHOWN:]}", file=sys.stderr, flush=True)
    return "wrong"


def try_all(name: str, sandbox: Sandbox, expected: Files, late: float) -> Iterator[Verdicts]:
    """Try the first call of each kind, alone and with all that follow, then the second, .. until none fails or `late`.

    Yields what came of each kind and error.
    """
    for rank in range(max(map(len, KINDS.values()))):
        tried = [Verdicts(kind, errors[rank]) for kind, errors in KINDS.items() if rank < len(errors)]
        pending = [(verdicts, onwards) for verdicts in tried for onwards in (False, True)]
        for at in itertools.count(1):
            for verdicts, onwards in tuple(pending):
                if time.monotonic() > late:
                    verdicts.first_untried = verdicts.first_untried or at
                elif verdict := try_plan(name, sandbox, expected, Plan(verdicts.kind, at, verdicts.error, onwards)):
                    verdicts.counts[verdict] += 1
                else:
                    pending.remove((verdicts, onwards))
            if not pending:
                break
            if time.monotonic() > late:
                for verdicts, _ in pending:
                    verdicts.first_untried = verdicts.first_untried or at + 1
                break
        yield from (verdicts for verdicts in tried if verdicts.counts or verdicts.first_untried)


def main(name: str, folder: Path, seconds: float) -> int:
    """The command line. Returns the exit status: 1 where something went wrong."""
    sandbox = Sandbox(folder, SCENARIOS[name])
    try:
        return inject(name, sandbox, time.monotonic() + seconds)
    finally:
        sandbox.helpers.close()


def inject(name: str, sandbox: Sandbox, late: float) -> int:
    """Run the command without a failure, then with each until `late`. Returns the exit status."""
    sandbox.helpers.start()
    if sandbox.scenario.plainly:
        sandbox.reset()
        subprocess.run(sandbox.scenario.plainly, cwd=sandbox.work, check=True)
        sandbox.plain = sandbox.new_files()
    for _ in range(2):  # the second fills no cache
        sandbox.reset()
        status, said, _failed = sandbox.run()
        if status:
            print(f"{name}: ends with {status} without a failure: {said}", file=sys.stderr)
            return 2
        if not sandbox.warm.is_dir():
            shutil.copytree(sandbox.cache, sandbox.warm, ignore=shutil.ignore_patterns("server"))  # a socket's folder
    sandbox.import_modules()
    expected, sandbox.usual = sandbox.new_files(), frozenset(sandbox.leftovers())
    wrong = 0
    for tried in try_all(name, sandbox, expected, late):
        counts = [tried.counts[verdict] for verdict in VERDICTS]
        cells = (name, tried.kind, os.strerror(tried.error), sum(counts), *counts, tried.first_untried)
        print("\t".join(map(str, cells)), flush=True)
        wrong += tried.counts["wrong"]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])))
