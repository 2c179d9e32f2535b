"""The verb `mavcg launch`: a compiler launcher that adds versions of hot functions to the objects that are compiled.

It runs once per file of a build: what a file without hot functions does not need is imported where it is used.
"""

import os

from mavcg.program.cold_command import plain_command
from mavcg.program.cold_launch import hot_words, is_cold, is_silent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mavcg.program.cold_command import ColdCommand
    from mavcg.program.kept_object import KeptObject

USAGE = (
    "usage: mavcg launch [--config mavcg.toml] [--strict] [--max-growth PERCENT] COMPILER ARGUMENTS.. | --program FILE"
)
HELP = """\
Run a compiler command, and add versions of the hot functions to the object that it makes.

The hot functions and the cores come from --config FILE, else from MAVCG_CONFIG, else from the nearest mavcg.toml above
the current folder, else above the source. Files without hot functions keep the compiler's object. If versions cannot
be made, the compiler's object stays, and a line says why; with --strict, the command fails.

--max-growth PERCENT is the largest growth of a file's code by versions; those that gain least per byte go first.
Default 100, and 16384 bytes in a smaller file; max_growth in mavcg.toml is the same. `growth N %` says what the
versions of a file add.

cmake -DCMAKE_C_COMPILER_LAUNCHER="mavcg;launch" -DCMAKE_CXX_COMPILER_LAUNCHER="mavcg;launch" ..
make CC="mavcg launch gcc" CXX="mavcg launch g++"

--program FILE writes a small program that does the same, and starts Python only for files that may have hot functions:
mavcg launch --program mavcg-launch && make CC="$PWD/mavcg-launch gcc"

mavcg launch --config mavcg.toml gcc -O2 -c sgemm.c -o sgemm.o
"""


def launch_here(arguments: list[str]) -> int:
    """Run `mavcg launch` as a process of its own: a resident process does what takes imports, if there is one.

    Where there is none, this process leaves one as it ends, if it has made versions (launch_server.py).
    """
    return launch(arguments, resident=True)


def launch(arguments: list[str], resident: bool = False) -> int:
    """Run a compiler command, add versions of hot functions to its object, and return the exit status.

    It parses its options by hand, because everything from the compiler's name on belongs to the compiler.
    resident: True to use the resident process, and to leave one.
    """
    given = arguments
    config: str | None = os.environ.get("MAVCG_CONFIG")
    strict = False
    max_growth: float | None = None
    compiled = False
    while arguments and arguments[0].startswith("-"):
        option, arguments = arguments[0], arguments[1:]
        if option in ("-h", "--help"):
            from mavcg.text.terminal import show

            show(f"{USAGE}\n\n{HELP.rstrip()}")
            return 0
        if option == "--strict":
            strict = True
        elif option.startswith("--config="):
            config = option.partition("=")[2]
        elif option == "--config" and arguments:
            config, arguments = arguments[0], arguments[1:]
        elif option.startswith("--max-growth=") or (option == "--max-growth" and arguments):
            value = option.partition("=")[2] if "=" in option else arguments[0]
            arguments = arguments if "=" in option else arguments[1:]
            max_growth = _percentage(value)
            if max_growth is None:
                return _refuse(f"launch --max-growth {value}: is not a percentage of 0 or more; give one, such as 50")
        elif option == "--program" and arguments:
            return _write_program(arguments[0])
        elif option == "--compiled":  # by the program of --program, which then found that the file is not cold
            compiled = True
        elif option == "--":
            break
        else:
            return _refuse(f"launch {option}: is not an option of mavcg launch; {USAGE}")
    if not arguments:
        return _refuse(f"launch: no compiler is named; {USAGE}")
    options = given[: len(given) - len(arguments)] if resident else None
    if compiled:
        return _finish(arguments, config, strict, max_growth, 0, [], options)
    return _launch(arguments, config, strict, max_growth, options)


def _write_program(path: str) -> int:
    from pathlib import Path

    from mavcg.console.error_exit import EXIT_BAD_INPUT, system_words
    from mavcg.errors import MavcgError
    from mavcg.program.launch_program import write_launch_program
    from mavcg.text.terminal import say, say_error

    try:
        write_launch_program(Path(path))
    except MavcgError as error:
        say_error(error)
        return EXIT_BAD_INPUT
    except OSError as error:
        say(f"launch --program {path}: {system_words(error)}")
        return EXIT_BAD_INPUT
    return 0


def _refuse(message: str) -> int:
    from mavcg.console.error_exit import EXIT_BAD_INPUT
    from mavcg.text.terminal import say

    say(message)
    return EXIT_BAD_INPUT


def _percentage(value: str) -> float | None:
    try:
        percent = float(value)
    except ValueError:
        return None
    return percent if 0 <= percent < float("inf") else None


def _launch(
    command: list[str], config: str | None, strict: bool, max_growth: float | None, options: list[str] | None
) -> int:
    compiled = plain_command(command)
    names = hot_words(compiled, config) if compiled else []
    kept = _find_kept(command, compiled, config, max_growth) if compiled and names else None
    status = None if names and not kept else _run_plain(command)
    if compiled and status == 0:
        if is_cold(compiled, config):
            return 0
        kept = kept or _find_kept(command, compiled, config, max_growth)
        if kept and _use_kept(kept, compiled, config):
            return 0
    if status or (status == 0 and compiled is None and is_silent(command, config)):
        return status
    return _finish(command, config, strict, max_growth, status, names if status is None else [], options)


def _finish(
    command: list[str],
    config: str | None,
    strict: bool,
    max_growth: float | None,
    status: int | None,
    names: "Sequence[bytes]",
    options: list[str] | None,
) -> int:
    """Do what the short way does not, in the resident process or here; options: those of launch, None for only here."""
    if options is None:
        return _launch_in_full(command, config, strict, max_growth, status, names)[0]
    from mavcg.program.launch_door import hand_over

    compiled = ["--compiled"] if status == 0 and "--compiled" not in options else []
    ended = hand_over([*compiled, *options, *command])
    if ended is not None:
        return ended
    ended, has_versions = _launch_in_full(command, config, strict, max_growth, status, names)
    if has_versions:
        from contextlib import suppress

        from mavcg.program.launch_server import start_server

        with suppress(OSError):  # no process, or no room: the object is made
            start_server(launch)
    return ended


def _find_kept(
    command: list[str], compiled: "ColdCommand", config: str | None, max_growth: float | None
) -> "KeptObject | None":
    from mavcg.program.kept_object import find_object, object_key

    return find_object(object_key(command, compiled, config)) if max_growth is None else None


def _use_kept(kept: "KeptObject", compiled: "ColdCommand", config: str | None) -> bool:
    import sys
    from contextlib import suppress

    from mavcg.program.kept_object import put_object

    if not put_object(kept, compiled, config):
        return False
    with suppress(OSError):  # a full disk behind it: the exit status stays what it is
        print(kept.message, file=sys.stderr, flush=True)
    return True


def _run_plain(command: list[str]) -> int | None:
    """Run a compiler, as subprocess does but without its imports; return its exit status, None if it cannot be run."""
    import signal

    # Python ignores these signals; compilers must not.
    ignored = [getattr(signal, name) for name in ("SIGPIPE", "SIGXFSZ") if hasattr(signal, name)]
    try:
        process = os.posix_spawnp(command[0], command, os.environ, setsigdef=ignored)
    except OSError:
        return None
    return _wait(process)


def _wait(process: int) -> int:
    try:
        _, ended = os.waitpid(process, 0)
    except KeyboardInterrupt:  # the compiler gets it too, and removes its files
        os.waitpid(process, 0)
        raise
    status = os.waitstatus_to_exitcode(ended)
    return status if status >= 0 else 128 - status  # killed by a signal: the status that shells return


def _launch_in_full(
    command: list[str],
    config: str | None,
    strict: bool,
    max_growth: float | None,
    status: int | None,
    names: "Sequence[bytes]",
) -> tuple[int, bool]:
    """Version the object of a compiler command; return the exit status, and True if versions were made.

    status: the compiler's exit status; None if it has not run yet. names: words of hot functions in the source, where
    it may be compiled once.
    """
    from pathlib import Path

    from mavcg.console.error_exit import EXIT_BAD_INPUT, show_tracebacks, system_words
    from mavcg.errors import MavcgError
    from mavcg.program.kept_object import object_key
    from mavcg.program.launching import LaunchOptions, find_config, run_compiler, version_at_once, version_object
    from mavcg.text.terminal import say, say_error, say_lines

    compiled = plain_command(command)
    key = object_key(command, compiled, config) if compiled and max_growth is None else ""
    options = LaunchOptions(Path(config) if config else find_config(Path.cwd()), strict, max_growth, key)
    try:
        made = version_at_once(command, options, names) if names else None
        if made is not None:
            status = made.status
        elif status is None:
            status = run_compiler(command)
        if status:
            return status, False
        done = made.message if made else version_object(command, options)
    except MavcgError as error:
        say_error(error, "the compiler's object stays: ")
        return (EXIT_BAD_INPUT if strict else 0), False
    except OSError as error:
        say(f"the compiler's object stays: {system_words(error)}")
        return (EXIT_BAD_INPUT if strict else 0), False
    except Exception as error:  # a fault of mavcg must not break the user's build, whose object is made
        if strict or show_tracebacks():
            raise
        say(f"the compiler's object stays: a fault of mavcg: {error!r}; MAVCG_DEBUG=1 shows where")
        return 0, False
    if done:
        say_lines(done)
    return 0, bool(done)
