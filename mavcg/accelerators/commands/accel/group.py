"""Assemble the verbs of `mavcg accel`."""

from mavcg.accelerators.commands.accel.assembler import assemble, disassemble
from mavcg.accelerators.commands.accel.build import build
from mavcg.accelerators.commands.accel.fuse import fuse
from mavcg.accelerators.commands.accel.hardware import cosim, rtl
from mavcg.accelerators.commands.accel.host import host
from mavcg.accelerators.commands.accel.match_and_path import match, path
from mavcg.accelerators.commands.accel.run import run, simulate
from mavcg.accelerators.commands.accel.targets import targets
from mavcg.accelerators.commands.accel.validate import validate
from mavcg.console.option_class import group_of

HELP = """Compile networks for accelerators with an instruction set (DNNVM): fusion, code, simulation.

mavcg accel targets lists the accelerators. The --help of each command has examples.
"""

accel = group_of(
    HELP,
    targets=targets,
    build=build,
    fuse=fuse,
    run=run,
    host=host,
    simulate=simulate,
    validate=validate,
    rtl=rtl,
    cosim=cosim,
    disassemble=disassemble,
    assemble=assemble,
    match=match,
    path=path,
)
