"""All verbs of the command line, as the program itself has them."""

from collections.abc import Iterator
from typing import Any

import typer

from mavcg.cli.app import make_app

# Verbs that never return by themselves are run by their own tests in a process of their own, not by the fixture.
SERVERS = {("farm", "serve"), ("farm", "join")}


def verbs(command: Any, name: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of each command that the command line has, those of groups included."""
    for word, below in getattr(command, "commands", {}).items():
        if hasattr(below, "commands"):
            yield from verbs(below, (*name, word))
        else:
            yield (*name, word)


VERBS = sorted(verbs(typer.main.get_command(make_app())))
