"""Failures of files and processes, by number, in a command: `python -m fuzz.inject.commands "SCENARIO" FOLDER SECONDS`.

It runs with files.c preloaded (run.py). Each plan is tried in a forked copy of this process. The verdict is right where
the command ended with 0 and wrote what it does without a failure; refused where it ended with 2, with one line of words
and nothing left behind but whole files; wrong otherwise, or where a second run, without a failure, does not work.
"""

import ctypes
import errno
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from fuzz.inject.scenarios import SCENARIOS, Scenario
from mavcg.cli.app import run

# The errors of each kind, the likeliest first: all kinds are tried with their first error before any with a second.
KINDS: Mapping[str, tuple[int, ...]] = {
    "rename": (errno.ENOSPC, errno.EACCES),
    "mkdir": (errno.ENOSPC, errno.EACCES),
    "link": (errno.EACCES, errno.EIO),
    "exec": (errno.EACCES, errno.EMFILE),
    "fork": (errno.EAGAIN, errno.ENOMEM),
    "write": (errno.ENOSPC, errno.EIO),
    "open": (errno.EACCES, errno.EMFILE, errno.ENOSPC),
}
REFUSED_STATUS = 2  # of mavcg, for what it cannot do
HANG_S = 180
_SHOWN = 600  # characters of a faulty command's words


Files = Mapping[str, bytes]  # name -> content


class Plan(NamedTuple):
    """The call that fails: its kind and number, from 1; onwards: all that follow too."""

    kind: str
    at: int
    error: int
    onwards: bool


class Sandbox:
    """The folders of a scenario: `work`, in which it runs, `tmp` and `cache`; `first` has what it begins with."""

    def __init__(self, folder: Path, scenario: Scenario) -> None:
        self.folder, self.scenario = folder, scenario
        self.work, self.tmp, self.cache, self.first = (folder / name for name in ("work", "tmp", "cache", "first"))
        shutil.rmtree(folder, ignore_errors=True)
        self.first.mkdir(parents=True)
        scenario.prepare(self.first)
        self.files = set(self.names(self.first))
        self.warm = folder / "warm"
        self.faults = 0
        self.plain: Files = {}  # what `plainly` writes
        self.usual: frozenset[str] = frozenset()  # what other packages leave behind without a failure too

    def reset(self) -> None:
        """Make all as it is before a run."""
        for made in (self.work, self.tmp, self.cache):
            shutil.rmtree(made, ignore_errors=True)
        shutil.copytree(self.first, self.work)
        self.tmp.mkdir()
        if self.warm.is_dir() and not self.scenario.cold:
            shutil.copytree(self.warm, self.cache)
        else:
            self.cache.mkdir(mode=0o700)

    @staticmethod
    def names(folder: Path) -> Iterator[str]:
        """Yield the files below a folder, relative to it."""
        return (path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())

    def new_files(self) -> dict[str, bytes]:
        """Return the files that the command wrote into its folder."""
        return {name: (self.work / name).read_bytes() for name in self.names(self.work) if name not in self.files}

    def leftovers(self) -> list[str]:
        """Return temporary files that are still there."""
        in_cache = (name for name in self.names(self.cache) if Path(name).suffix in (".tmp", ".part"))
        left = [*(f"tmp/{name.name}" for name in self.tmp.iterdir()), *(f"cache/{name}" for name in in_cache)]
        return [name for name in left if name not in self.usual]

    def run(self, plan: Plan | None = None) -> tuple[int, str, bool]:
        """Run the command in a forked copy. Returns its status (-1: it hangs), its words, and whether a call failed."""
        counts = _library().mavcg_inject_begin()
        said = self.folder.with_suffix(".said")  # not in the folder, where it would count
        child = os.fork()
        if not child:
            os._exit(self._in_child(said, plan))
        late, status = time.monotonic() + HANG_S, None
        while status is None and time.monotonic() < late:
            done, code = os.waitpid(child, os.WNOHANG)
            status = os.waitstatus_to_exitcode(code) if done else None
            time.sleep(0.01)
        if status is None:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
        return -1 if status is None else status, said.read_text(errors="replace"), counts[1] > 0

    def _in_child(self, said: Path, plan: Plan | None) -> int:
        os.setsid()
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.chdir(self.work)
        os.environ |= {"TMPDIR": str(self.tmp), "MAVCG_CACHE": str(self.cache), "HOME": str(self.folder)}
        tempfile.tempdir = None
        if plan is not None:
            values = (plan.kind.encode(), plan.at, plan.error, int(plan.onwards), f"{self.folder}/".encode())
            _library().mavcg_inject_arm(*values)
        try:
            return run(self.scenario.arguments)
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else 1
        except BaseException:  # what the command line would show as a traceback
            traceback.print_exc()
            return 1
        finally:
            sys.stderr.flush()


@cache
def _library() -> ctypes.CDLL:
    """The functions of files.c, which is preloaded."""
    library = ctypes.CDLL(None)
    library.mavcg_inject_begin.restype = ctypes.POINTER(ctypes.c_int)
    return library


def fault_of(sandbox: Sandbox, expected: Files, status: int, said: str) -> str:
    """Return what is wrong after a run with a failure; "" where it is right or refused."""
    if status == -1:
        return "it hangs"
    if "Traceback" in said:
        return "a traceback"
    written = sandbox.new_files()
    if status == 0 and written not in (expected, sandbox.plain):
        return f"it ends with 0, but its files differ: {sorted(written.items() ^ expected.items())[:1]!r:.80}"
    if status not in (0, REFUSED_STATUS):
        return f"exit status {status}"
    if status == REFUSED_STATUS and not said.strip().splitlines()[-1:]:
        return "it says nothing"
    whole = (expected, sandbox.plain)
    if halves := [name for name, content in written.items() if content not in (files.get(name) for files in whole)]:
        return f"it leaves {', '.join(halves)}"
    if left := sandbox.leftovers():
        return f"it leaves {', '.join(left)}"
    status, said, _ = sandbox.run()
    if status or sandbox.new_files() != expected:
        return f"a second run ends with {status}: {said.strip()[-200:]}"
    return ""


def try_kind(name: str, sandbox: Sandbox, expected: Files, plans: Iterator[Plan], late: float) -> bool:
    """Try plans until none fails or the time is over; print a row. Returns whether time is left."""
    counts = {"right": 0, "refused": 0, "wrong": 0}
    for plan in plans:
        if time.monotonic() > late:
            break
        sandbox.reset()
        status, said, failed = sandbox.run(plan)
        if not failed:
            break
        fault = fault_of(sandbox, expected, status, said)
        counts["wrong" if fault else "refused" if status else "right"] += 1
        sandbox.faults += bool(fault)
        if fault:
            where = f"{name}: {plan.kind} {plan.at}{' and on' if plan.onwards else ''}, {os.strerror(plan.error)}"
            print(f"{where}: {fault}\n{said.strip()[-_SHOWN:]}", file=sys.stderr, flush=True)
    tried = sum(counts.values())
    if tried:
        print("\t".join(map(str, (name, plan.kind, os.strerror(plan.error), tried, *counts.values()))), flush=True)
    return time.monotonic() <= late


def all_plans() -> Iterator[Iterator[Plan]]:
    """Yield the plans of each kind and error, the first call, the second, .. without an end."""
    for rank in range(max(map(len, KINDS.values()))):
        for onwards in (False, True):
            for kind, errors in KINDS.items():
                for error in errors[rank : rank + 1]:
                    yield (Plan(kind, at, error, onwards) for at in itertools.count(1))


def main(name: str, folder: Path, seconds: float) -> int:
    """The command line. Returns the exit status: 1 where something went wrong."""
    sandbox = Sandbox(folder, SCENARIOS[name])
    late = time.monotonic() + seconds
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
            shutil.copytree(sandbox.cache, sandbox.warm)
    expected, sandbox.usual = sandbox.new_files(), frozenset(sandbox.leftovers())
    for plans in all_plans():
        if not try_kind(name, sandbox, expected, plans, late):
            print(f"{name}: the time is over", file=sys.stderr)
            break
    return 1 if sandbox.faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])))
