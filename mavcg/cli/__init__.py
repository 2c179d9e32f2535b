"""The `mavcg` command: the door to all verbs, and the verbs of programs and models; a verb is a module.

Where the next thing goes:

- Verb of programs, models, cores: here, since `build` and others join several folders; then a row in verbs.py.
- Verb of a tenant: in its commands folder, mavcg/accelerators/commands, mavcg/lab/commands or mavcg/apps/commands, with
  its tests in the mirrored folder; then a row in verbs.py.
- What several verbs share: mavcg/console.
"""

import gc
import os
import sys

TYPE_CHECKING = False  # typing's import takes time, and nothing is imported before the current folder is off the path
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def main() -> None:
    """Run the command line of this process, and exit with 0: done, 2: bad input or usage, or 1: a fault of mavcg."""
    _leave_current_folder()  # before anything else is imported
    _open_streams()
    # Graphs and IR are many long-lived objects: with Python's default threshold, garbage collection takes a quarter of
    # the time of emitting kernels.
    gc.set_threshold(300_000)
    if sys.argv[1:2] == ["launch"]:
        # A compiler launcher runs once per file: it imports only what a file without hot functions needs.
        from mavcg.cli.launch import launch_here

        _end_on_signals()
        sys.exit(launch_here(sys.argv[2:]))
    from mavcg.cli.app import run
    from mavcg.files.scratch import remove_on_signals

    remove_on_signals()
    sys.exit(run(sys.argv[1:], _confine))


def _confine(verb: str, options: "Mapping[str, Any]") -> None:
    """Confine this process to what a verb needs; the imports are not for --help."""
    from mavcg.cli.confinement import confine_verb

    confine_verb(verb, options)


def _end_on_signals() -> None:
    """Do what remove_on_signals does, with its imports only when a signal comes."""
    import signal

    def end(number: int, frame: object) -> None:
        from mavcg.files.scratch import end_by_signal

        end_by_signal(number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, end)


def _leave_current_folder() -> None:
    """Import nothing from the current folder, which `python -m` and an empty entry of PYTHONPATH put on the path.

    A package that is loaded from there, as mavcg in a checkout, has its own path.
    """
    try:
        here = os.path.realpath(os.curdir)
    except OSError:  # it was removed
        here = ""
    sys.path[:] = [folder for folder in sys.path if folder and os.path.realpath(folder) != here]


def _open_streams() -> None:
    """Open closed standard streams (`mavcg cores >&-`) on /dev/null, so that no other file gets their numbers."""
    for number, name in ((0, "stdin"), (1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this stream's
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", closefd=False))
