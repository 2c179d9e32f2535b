"""Confine the process of a verb before it reads any file: where it may write follows from its options.

The one door is `ConfinedCommand`, by which typer calls every verb (mavcg/cli/app.py, group_of). Verbs that run programs
of yours, or reach other machines, are not confined: FREE and the options in `_is_free` name them, docs/security.md too.
"""

import contextlib
import os
import signal
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import mavcg
from mavcg.errors import MavcgError
from mavcg.files.bytecode import compile_changed
from mavcg.files.sandbox import missing_parts, sandbox
from mavcg.files.scratch import end_process
from mavcg.files.store import code_folder
from mavcg.program.cold_launch import FILE_NAME
from mavcg.text.terminal import say

VARIABLE, FOLDERS, SECONDS = "MAVCG_SANDBOX", "MAVCG_SANDBOX_FOLDERS", "MAVCG_CPU_SECONDS"
OFF = ("off", "0", "no")
# Verb -> why it is not confined: what it starts may write and connect as its user may.
FREE = {
    "launch": "runs the compiler of a build",
    "auto": "runs your program, here or on a board",
    "measure": "runs your program, here or on a board",
    "calibrate": "runs programs on a board",
    "tune": "runs programs on a board, and workers of a farm",
    "farm serve": "is a server",
    "farm join": "is a server",
}
# Options that name what is written, by their names in the verbs' options.
OUTPUTS = (
    "output",
    "also",
    "aar",
    "sbom",
    "plot",
    "plot_front",
    "keep",
    "emit_ir",
    "emit_c",
    "emit_cuda",
    "svg",
    "timeline",
    "db",
    "cost_db",
)
# Verbs that write into the current folder unless --output names another place.
INTO_CURRENT_FOLDER = ("build", "runtime", "app build")
# Searches of hours are these verbs' use; builds have --max-seconds.
LONG = ("explore",)
DEFAULT_SECONDS = 3600  # of CPU, for each CPU of the machine
_GRACE_S = 30  # from the signal to the end, for a process that does not hear it


def confine_verb(verb: str, options: Mapping[str, Any]) -> None:
    """Confine this process to what a verb needs. options: by their names in the verb's signature.

    MAVCG_SANDBOX=off confines nothing, =require refuses to work where the system cannot; else what there is counts.
    Raises: MavcgError as `mavcg.sandbox`, and for a value of MAVCG_SANDBOX that is none of these.
    """
    mode = os.environ.get(VARIABLE, "").lower()
    if mode in OFF:
        return
    if mode not in ("", "on", "require"):
        raise MavcgError(f"{VARIABLE}={mode}: is not a mode; set on, require or off")
    project = _project(options) if verb == "build" else None
    if _is_free(verb, options) or (project is not None and _runs_commands(project)):
        return
    if mode == "require" and (missing := missing_parts()):
        raise MavcgError(f"{VARIABLE}=require: this system has no {' and no '.join(missing)}; set on to do without")
    if verb not in LONG and "max_seconds" not in options:
        _limit_cpu_seconds()
    compile_changed(mavcg.__path__[0])
    os.environ.setdefault("MPLCONFIGDIR", str(code_folder() / "matplotlib"))  # else it warns that it cannot write
    sandbox(_existing(_places(verb, options, project)), require=False)


def _is_free(verb: str, options: Mapping[str, Any]) -> bool:
    """Return True for verbs and options with which programs of the user's run, or other machines are reached."""
    if verb in FREE or options.get("process") or options.get("driver"):
        return True
    if verb == "profile" and not options.get("import_"):
        return True
    workers = options.get("workers")  # a number of processes here, or the address of a farm
    return workers is not None and not str(workers).isdigit()


def _project(options: Mapping[str, Any]) -> Path | None:
    """Return the build file that `mavcg build` reads; None if it reads none."""
    inputs = options.get("inputs") or []
    if inputs:
        return Path(inputs[0]) if Path(inputs[0]).suffix == ".toml" else None
    if options.get("source") or options.get("ir") or options.get("compile_commands"):
        return None
    return Path(FILE_NAME)


def _runs_commands(project: Path) -> bool:
    """Return True if a build file names a build of the user's to be run, by the key build.command."""
    build = _tables(project).get("build")
    return isinstance(build, dict) and bool(build.get("command"))


def _tables(project: Path) -> dict[str, Any]:
    """Return a build file's tables; {} for one that cannot be read, of which the verb then says what is wrong."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        return tomllib.loads(project.read_text(encoding="utf-8"))
    return {}


def _places(verb: str, options: Mapping[str, Any], project: Path | None) -> Iterator[Path]:
    """Yield the paths that a verb writes to, or the folders that it writes into."""
    named = [Path(options[name]) for name in OUTPUTS if options.get(name) not in (None, "-")]
    yield from named
    yield from (Path(folder) for folder in os.environ.get(FOLDERS, "").split(os.pathsep) if folder)
    if project is not None:
        yield project.resolve().parent
        yield from (project.parent / output for output in _outputs(_tables(project)))
    if verb == "init":
        yield Path(options.get("folder") or ".")
    if verb == "accel cosim":
        yield Path(options["rtl"])
    if verb in INTO_CURRENT_FOLDER and not options.get("output"):
        yield Path.cwd()


def _outputs(table: object) -> Iterator[str]:
    """Yield the values of the keys `output` and `also` in a build file."""
    if isinstance(table, dict):
        for key, value in table.items():
            if key in ("output", "also") and isinstance(value, str):
                yield value
            yield from _outputs(value)
    elif isinstance(table, list):
        for entry in table:
            yield from _outputs(entry)


def _existing(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield for each path what has to be writable: it, if it is a folder or device, else the folder that is there."""
    for path in paths:
        if path.is_dir() or (path.exists() and not path.is_file()):
            yield path
            continue
        folder = path.resolve().parent  # that of a link's target, which is replaced
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
        yield folder


def _limit_cpu_seconds() -> None:
    """End this process with an error when it has used its seconds of CPU; programs that it starts are killed then.

    Raises: MavcgError for a value of MAVCG_CPU_SECONDS that is no number.
    """
    try:
        import resource
    except ImportError:  # Windows
        return
    text = os.environ.get(SECONDS, "") or str(DEFAULT_SECONDS * (os.cpu_count() or 1))
    if not text.isdigit() or not int(text):
        raise MavcgError(f"{SECONDS}={text}: is not a number of seconds; give a whole one above 0")
    seconds, (_, most) = int(text), resource.getrlimit(resource.RLIMIT_CPU)
    if most != resource.RLIM_INFINITY and most <= seconds + _GRACE_S:
        return  # whoever started this process has set a limit already
    message = f"the command takes more than {seconds} seconds of CPU; {SECONDS} allows more"
    signal.signal(signal.SIGXCPU, lambda number, frame: end_process(2, partial(say, message)))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + _GRACE_S))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
