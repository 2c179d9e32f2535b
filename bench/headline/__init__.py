"""Benches of the headline figures: parts of longer benches that stay within some minutes, each with a record."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from bench import records
from bench.record import facts, write
from bench.tables.catalogue import shown
from mavcg.errors import MavcgError


def run(name: str, kind: str, about: str | None, measure: Callable[[], Mapping[str, Any]]) -> None:
    """Be the command of a headline figure: measure, write its record, print it as markdown or with --json its rows.

    kind: as for bench.record.facts. about: the module's docstring.
    """
    parser = argparse.ArgumentParser(prog=f"python -m bench.headline.{name}", description=about)
    parser.add_argument("--json", action="store_true", help="print what was measured instead of a table")
    options = parser.parse_args()
    try:
        measured = {**facts(kind, f"bench.headline.{name}"), **measure()}
        path = write(name, measured)
        print(json.dumps(measured, indent=1) if options.json else shown(records.read(path)))
    except MavcgError as error:
        sys.exit(f"bench.headline.{name}: {error}")
