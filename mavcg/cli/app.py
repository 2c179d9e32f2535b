"""Assemble the verbs to one command line, and turn errors into a message and an exit status."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any

import typer

from mavcg.cli.verbs import VERBS, verb_named
from mavcg.console.error_exit import EXIT_BAD_INPUT, show_tracebacks, system_words
from mavcg.console.option_class import Command
from mavcg.errors import MavcgError
from mavcg.text.terminal import say, say_error, show

HELP = """Build libraries with machine code for each core type of a processor whose cores differ.

For a program: mavcg init; mavcg profile && mavcg build; then link the library.
For a neural network: mavcg build model.onnx --board exynos9820 -o libmodel.so.
The --help of each command has examples.
"""


# `mavcg launch` parses its arguments itself, because those after the compiler's name belong to the compiler.
_ALL_TO_LAUNCH = {"ignore_unknown_options": True, "allow_interspersed_args": False}


def make_app(names: Iterable[str] = VERBS) -> typer.Typer:
    """Return the command line with these verbs, by default all."""
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
    for name in names:
        if name == "launch":
            from mavcg.cli.launch import HELP as LAUNCH_HELP

            app.command(name, help=LAUNCH_HELP, add_help_option=False, context_settings=_ALL_TO_LAUNCH)(_launch)
        elif isinstance(verb := verb_named(name), typer.Typer):
            app.add_typer(verb, name=name)
        else:
            app.command(name, cls=Command)(verb)
    return app


def _launch(arguments: Annotated[list[str] | None, typer.Argument(metavar="COMPILER ARGUMENTS..")] = None) -> None:
    from mavcg.cli.launch import launch

    raise SystemExit(launch(arguments or []))


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
def _command(name: str | None) -> Any:
    """Return the command line as typer runs it, with one verb or with all; made once, for all runs in this process."""
    return typer.main.get_command(make_app(VERBS if name is None else (name,)))


def run(arguments: Sequence[str], confine: Callable[[str, Mapping[str, Any]], None] | None = None) -> int:
    """Run a command line and return its exit status.

    confine: called with the verb's words and options before its work, to confine this process to it.
    """
    try:
        # Help and usage errors list all verbs; to run one, the modules of the others need not be imported.
        only = arguments[0] if arguments and arguments[0] in VERBS else None
        _command(only)(list(arguments), prog_name="mavcg", obj=confine)
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
    except MemoryError:
        if show_tracebacks():
            raise
        say("more memory is needed than the system gives; end other programs, or take a smaller input")
        return EXIT_BAD_INPUT
    except OSError as error:  # a full disk, a folder without permission
        if show_tracebacks():
            raise
        say(system_words(error))
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
