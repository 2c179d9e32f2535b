"""Assemble the verbs to one command line, and turn errors into a message and an exit status."""

import os
import sys
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any

import typer

from mavcg.accelerators.commands.accel.group import make_accel
from mavcg.accelerators.commands.explore import explore
from mavcg.accelerators.commands.plan import plan
from mavcg.apps.commands.group import make_application_verbs
from mavcg.cli.auto import auto
from mavcg.cli.bench import bench
from mavcg.cli.blas import make_blas_verbs
from mavcg.cli.build import build
from mavcg.cli.cores import cores
from mavcg.cli.estimate import estimate
from mavcg.cli.explain import explain
from mavcg.cli.init import init
from mavcg.cli.inspect import inspect
from mavcg.cli.launch import HELP as LAUNCH_HELP
from mavcg.cli.launch import launch
from mavcg.cli.measure import measure
from mavcg.cli.memory import memory
from mavcg.cli.primitives import primitives
from mavcg.cli.profile import profile
from mavcg.cli.run import run as run_model
from mavcg.cli.runtime import runtime
from mavcg.cli.select import select
from mavcg.cli.tune_asm import tune_asm
from mavcg.console.error_exit import EXIT_BAD_INPUT, show_tracebacks
from mavcg.errors import MavcgError
from mavcg.files.disk_space import NO_ROOM, full_folders
from mavcg.lab.commands.farm import make_farm_verbs
from mavcg.lab.commands.simulate import simulate
from mavcg.lab.commands.tune import tune
from mavcg.text.terminal import say, say_error, show

HELP = """Build libraries with machine code for each core type of a processor whose cores differ.

For a program: mavcg init; mavcg profile && mavcg build; then link the library.
For a neural network: mavcg build model.onnx --board exynos9820 -o libmodel.so.
The --help of each command has examples.
"""


# `mavcg launch` parses its arguments itself, because those after the compiler's name belong to the compiler.
_ALL_TO_LAUNCH = {"ignore_unknown_options": True, "allow_interspersed_args": False}


def _launch(arguments: Annotated[list[str] | None, typer.Argument(metavar="COMPILER ARGUMENTS..")] = None) -> None:
    raise SystemExit(launch(arguments or []))


def make_app() -> typer.Typer:
    """Return the command line with all its verbs."""
    app = typer.Typer(
        name="mavcg",
        help=HELP,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode=None,
    )
    app.callback()(_options)
    for verb in (
        init,
        profile,
        build,
        auto,
        inspect,
        run_model,
        bench,
        estimate,
        simulate,
        plan,
        explore,
        primitives,
        tune,
        select,
        explain,
        tune_asm,
        measure,
        memory,
        cores,
        runtime,
    ):
        app.command()(verb)
    app.add_typer(make_application_verbs(), name="app")
    app.add_typer(make_blas_verbs(), name="blas")
    app.add_typer(make_farm_verbs(), name="farm")
    app.command(name="launch", help=LAUNCH_HELP, add_help_option=False, context_settings=_ALL_TO_LAUNCH)(_launch)
    app.add_typer(make_accel())
    return app


def _version(requested: bool) -> None:
    if requested:
        from mavcg import __version__

        show(f"mavcg {__version__}")
        raise typer.Exit


def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    pass


_options.__doc__ = HELP


@cache
def _command() -> Any:
    """Return the command line as typer runs it; made once, for all runs in this process."""
    return typer.main.get_command(make_app())


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit status."""
    try:
        _command()(list(arguments), prog_name="mavcg")
        return 0
    except SystemExit as end:  # typer ends with 0, or with 2 after it has printed a usage error
        if isinstance(end.__context__, BrokenPipeError):  # `mavcg cores | head`
            return _no_stdout(0)
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            return _no_stdout(0)
        except OSError as error:  # `mavcg cores > /mnt/full/list`
            say(f"standard output: {error.strerror}; make room, or send it elsewhere")
            return _no_stdout(EXIT_BAD_INPUT)
        return end.code if isinstance(end.code, int) else 0
    except MavcgError as error:
        if show_tracebacks():
            raise
        say_error(error)
        return EXIT_BAD_INPUT
    except OSError as error:  # a full disk, a folder without permission
        if show_tracebacks():
            raise
        # The error of a write to a full disk names no file: unless a folder is known to be full, it was stdout.
        unnamed = (full_folders() or "standard output") if error.errno in NO_ROOM else "a system call"
        location = error.filename2 or error.filename or unnamed
        remedy = "make room" if error.errno in NO_ROOM else "check that it can be read and written"
        say(f"{location!s}: {error.strerror or error}; {remedy}")
        return _no_stdout(EXIT_BAD_INPUT) if not _flush_stdout() else EXIT_BAD_INPUT


def _flush_stdout() -> bool:
    """Write pending output to stdout; return False if that fails."""
    try:
        sys.stdout.flush()
        return True
    except OSError:
        return False


def _no_stdout(status: int) -> int:
    """Discard pending output, which Python would try to write at its end, and return the exit status."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return status
