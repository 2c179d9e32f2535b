"""The folders in which a command runs while calls fail, and what it leaves there."""

import contextlib
import ctypes
import hashlib
import importlib
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from fuzz.inject.contents import content_of
from fuzz.inject.helpers import Helpers, end_when_ready, processes_left
from fuzz.inject.scenarios import Scenario
from mavcg.cli.app import run

HANG_S = 600  # by the clock: a machine that others use may be slow
PROCESSES_LEFT = "\n(it leaves processes)"

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
        self.files = {*self.names(self.first), *scenario.passing}
        self.helpers = Helpers(scenario.helpers, self.words)
        self.warm = folder / "warm"
        self.plain: Files = {}  # what `plainly` writes
        self.usual: frozenset[str] = frozenset()  # what other packages leave behind without a failure too
        self.recovered: set[tuple[bool, bytes]] = set()  # states after which a run without a failure was right
        self.said = folder.with_suffix(".said")  # not in the folder, where it would count

    def words(self, text: str) -> str:
        """Return a word of a command line, or a variable, with the folders and the address in it."""
        address = self.helpers.address if "{address}" in text else ""
        return text.replace("{work}", str(self.work)).replace("{first}", str(self.first)).replace("{address}", address)

    def reset(self) -> None:
        """Make all as it is before a run."""
        for made in (self.work, self.tmp, self.cache):
            shutil.rmtree(made, ignore_errors=True)
        # Links: caches know files by their inodes too, and of one sandbox all runs shall go the same way.
        shutil.copytree(self.first, self.work, copy_function=os.link)
        self.tmp.mkdir()
        if self.warm.is_dir() and not self.scenario.cold:
            shutil.copytree(self.warm, self.cache)
        else:
            self.cache.mkdir(mode=0o700)

    @staticmethod
    def names(folder: Path) -> Iterator[str]:
        """Yield the files below a folder, relative to it."""
        paths = (path for path in folder.rglob("*") if not (path.is_dir() or path.is_socket()))
        return (path.relative_to(folder).as_posix() for path in paths)

    def new_files(self) -> dict[str, bytes]:
        """Return the files that the command wrote into its folder."""
        return {name: content_of(self.work / name) for name in self.names(self.work) if name not in self.files}

    def leftovers(self) -> list[str]:
        """Return temporary files that are still there."""
        in_cache = (name for name in self.names(self.cache) if Path(name).suffix in (".tmp", ".part"))
        left = [*(f"tmp/{name.name}" for name in self.tmp.iterdir()), *(f"cache/{name}" for name in in_cache)]
        return [name for name in left if name not in self.usual]

    def state(self) -> bytes:
        """Return a digest of all files of the folders: a run without a failure that begins with the same ends alike."""
        digest = hashlib.sha256()
        for folder in (self.work, self.tmp, self.cache):
            for name in sorted(self.names(folder)):
                content = content_of(folder / name)
                digest.update(f"{folder.name}/{name}\0{len(content)}\0".encode() + content)
        return digest.digest()

    def import_modules(self) -> None:
        """Import what the last run without a failure imported, which the copies then need not do, each anew."""
        for name in self.said.with_suffix(".modules").read_text().splitlines():
            with contextlib.suppress(ImportError):  # packages list names, too, that are none of a module's
                importlib.import_module(name)

    def run(self, plan: Plan | None = None) -> tuple[int, str, bool]:
        """Run the command in a forked copy. Returns its status (-1: it hangs), its words, and whether a call failed."""
        counts, said = _library().mavcg_inject_begin(), self.said
        said.with_suffix(".out").unlink(missing_ok=True)
        child = os.fork()
        if not child:
            os._exit(self._in_child(plan))
        late, status = time.monotonic() + HANG_S, None
        if self.scenario.serves:
            end_when_ready(child, said.with_suffix(".out"), late)
        while status is None and time.monotonic() < late:
            done, code = os.waitpid(child, os.WNOHANG)
            status = os.waitstatus_to_exitcode(code) if done else None
            time.sleep(0.01)
        if status is None:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
        elif processes_left(child):
            return status, said.read_text(errors="replace") + PROCESSES_LEFT, counts[1] > 0
        return -1 if status is None else status, said.read_text(errors="replace"), counts[1] > 0

    def _in_child(self, plan: Plan | None) -> int:
        os.setsid()
        os.dup2(os.open(self.said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        os.dup2(os.open(self.said.with_suffix(".out"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        os.chdir(self.work)
        os.environ |= {"TMPDIR": str(self.tmp), "MAVCG_CACHE": str(self.cache), "HOME": str(self.folder)}
        os.environ["MAVCG_LAUNCH_SERVER"] = "0"
        # Of a program that is in the fifth folder, the first four tries fail without a plan.
        os.environ["PATH"] = str(Path(shutil.which("gcc") or "/usr/bin/gcc").parent)
        os.environ |= {name: self.words(value) for name, value in self.scenario.environment.items()}
        tempfile.tempdir = None
        self.scenario.stand_in()
        arguments = [self.words(word) for word in self.scenario.arguments]
        if plan is not None:
            values = (plan.kind.encode(), plan.at, plan.error, int(plan.onwards), f"{self.folder}/".encode())
            _library().mavcg_inject_arm(*values)
        try:
            return run(arguments)
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else 1
        except BaseException:  # what the command line would show as a traceback
            traceback.print_exc()
            return 1
        finally:
            if plan is None:
                self.said.with_suffix(".modules").write_text("\n".join(sys.modules))
            sys.stderr.flush()


@cache
def _library() -> ctypes.CDLL:
    """The functions of files.c, which is preloaded."""
    library = ctypes.CDLL(None)
    library.mavcg_inject_begin.restype = ctypes.POINTER(ctypes.c_int)
    return library
