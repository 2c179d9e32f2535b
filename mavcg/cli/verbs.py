"""Table of the verbs, in the order of `mavcg --help`; a verb's module is imported when it is needed."""

from importlib import import_module
from typing import Any

# Name of a verb -> module and, in it, the command: a function, or a typer.Typer with verbs of its own.
VERBS = {
    "init": "mavcg.cli.init:init",
    "profile": "mavcg.cli.profile:profile",
    "build": "mavcg.cli.build:build",
    "auto": "mavcg.cli.auto:auto",
    "inspect": "mavcg.cli.inspect:inspect",
    "run": "mavcg.cli.run:run",
    "bench": "mavcg.cli.bench:bench",
    "estimate": "mavcg.cli.estimate:estimate",
    "simulate": "mavcg.lab.commands.simulate:simulate",
    "plan": "mavcg.accelerators.commands.plan:plan",
    "explore": "mavcg.accelerators.commands.explore:explore",
    "primitives": "mavcg.cli.primitives:primitives",
    "calibrate": "mavcg.lab.commands.calibrate:calibrate",
    "tune": "mavcg.lab.commands.tune:tune",
    "select": "mavcg.cli.select:select",
    "quantise": "mavcg.cli.quantise:quantise_verb",
    "explain": "mavcg.cli.explain:explain",
    "tune-asm": "mavcg.cli.tune_asm:tune_asm",
    "measure": "mavcg.cli.measure:measure",
    "memory": "mavcg.cli.memory:memory",
    "cores": "mavcg.cli.cores:cores",
    "runtime": "mavcg.cli.runtime:runtime",
    "launch": "mavcg.cli.launch:launch",
    "app": "mavcg.apps.commands.group:app",
    "blas": "mavcg.cli.blas:blas",
    "farm": "mavcg.lab.commands.farm:farm",
    "accel": "mavcg.accelerators.commands.accel.group:accel",
}


def verb_named(name: str) -> Any:
    """Import a verb of VERBS and return its command: a function, or a typer.Typer."""
    module, _, command = VERBS[name].partition(":")
    return getattr(import_module(module), command)
