"""Measure the headline figures here, then write README.md and docs/figures.md: `make figures`, half an hour.

python -m bench.figures                       all that this machine has not measured of this commit today; goes on so
python -m bench.figures --only dispatch,blas  these alone
python -m bench.figures --again               those too that are known
python -m bench.figures --list                names, and the command and the share of the time of each

Each figure is measured by a bench in a process of its own. One that fails, or takes more than three times its share,
keeps the record that it has, and the exit status is 1.
"""

import argparse
import datetime
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench import records
from bench.machine import machine
from bench.pages import Headline, Pages, plan_of, write_pages
from bench.record import commit
from bench.records import RESULTS, ROOT
from mavcg.errors import MavcgError
from mavcg.text.terminal import say


def chosen(names: str | None, known: Sequence[Headline]) -> list[Headline]:
    """Return the headline figures with these names, all without.

    Raises: MavcgError for a name that none has.
    """
    if names is None:
        return list(known)
    asked = names.split(",")
    there = [headline.name for headline in known]
    for name in asked:
        if name not in there:
            raise MavcgError(f"--only {name}: there is no such figure; there are {', '.join(there)}")
    return [headline for headline in known if headline.name in asked]


def is_known(record: Path) -> bool:
    """Return whether a record is of today, of the commit that is checked out, and of this machine."""
    if not record.is_file():
        return False
    found = records.read(record)
    today = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"
    facts = (found.date[:10], found.commit, found.machine["processor"], found.machine["cpus"])
    about = machine()
    return facts == (today, commit(), about["processor"], about["cpus"]) and not found.commit.endswith("-dirty")


def measured(headline: Headline) -> str | None:
    """Run the bench of a figure; returns what went wrong, in a few words."""
    allowed = 3 * headline.seconds
    command = [sys.executable, "-m", *headline.bench.split()]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            status = process.wait(allowed)
        except BaseException as error:  # a bench stops programs in turn: they end with it
            os.killpg(process.pid, signal.SIGKILL)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            return f"took more than {allowed} s"
    return f"ended with status {status}" if status else None


def measure(asked: Sequence[Headline], again: bool) -> Iterator[str]:
    """Measure figures, each bench once; yields a line for each bench that failed."""
    by_bench = {headline.bench: headline for headline in asked}
    left = sum(headline.seconds for headline in by_bench.values())
    for number, headline in enumerate(by_bench.values(), 1):
        about = f"{number} of {len(by_bench)}, {headline.bench}"
        if not again and is_known(RESULTS / f"{headline.record}.json"):
            say(f"figures: {about}: measured already, today and of this commit")
        else:
            say(f"figures: {about}, some {headline.seconds / 60:.0f} of {left / 60:.0f} minutes")
            begun = time.monotonic()
            why = measured(headline)
            say(f"figures: {about}: {why or 'done'}, {time.monotonic() - begun:.0f} s")
            if why:
                yield f"{headline.bench} {why}"
        left -= headline.seconds


def as_json(pages: Pages, asked: Sequence[Headline]) -> list[dict[str, Any]]:
    """Return figures as they stand on the pages."""
    return [{"name": each.name, "what": each.figure.what, **pages.facts_of(each.figure)} for each in asked]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAMES", help="names of figures, with commas")
    parser.add_argument("--again", action="store_true", help="measure what is known, too")
    parser.add_argument("--list", action="store_true", help="list the figures, and measure nothing")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    plan = plan_of()
    try:
        asked = chosen(options.only, plan.headline)
        if options.list:
            for headline in asked:
                print(f"{headline.name:14}{headline.seconds:4} s  python -m {headline.bench}")
            return 0
        failed = list(measure(asked, options.again))
        pages = Pages(plan, RESULTS, ROOT)
        write_pages(pages, ROOT)
        shown = as_json(pages, asked)
    except MavcgError as error:
        print(f"bench.figures: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(shown, indent=1))
    else:
        print("\n".join(f"{figure['what']}: {figure['value']}" for figure in shown))
    for line in failed:
        print(f"bench.figures: {line}; the record before stays", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
