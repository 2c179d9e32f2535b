"""Assemble the verbs of `mavcg accel`."""

import typer

from mavcg.accelerators.commands.accel.assembler import assemble, disassemble
from mavcg.accelerators.commands.accel.build import build
from mavcg.accelerators.commands.accel.fuse import fuse
from mavcg.accelerators.commands.accel.host import host
from mavcg.accelerators.commands.accel.match import match
from mavcg.accelerators.commands.accel.path import path
from mavcg.accelerators.commands.accel.run import run
from mavcg.accelerators.commands.accel.simulate import simulate
from mavcg.accelerators.commands.accel.targets import targets
from mavcg.accelerators.commands.accel.validate import validate

HELP = """Compile networks for accelerators with an instruction set (DNNVM): fusion, code, simulation.

mavcg accel targets lists the accelerators. The --help of each command has examples.
"""


def make_accel() -> typer.Typer:
    """Return the command line of `mavcg accel` with all its verbs."""
    app = typer.Typer(name="accel", help=HELP, no_args_is_help=True, rich_markup_mode=None)
    for verb in (targets, build, fuse, run, host, simulate, validate, disassemble, assemble, match, path):
        app.command()(verb)
    return app
