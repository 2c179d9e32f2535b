"""The options that benchmarks of networks share: the networks, and the number of jobs."""

import argparse
from collections.abc import Sequence


def network_options(name: str, description: str | None, networks: Sequence[str], jobs: str) -> argparse.ArgumentParser:
    """Return the parser of `python -m bench.NAME [NETWORK ..] [--jobs N]`.

    networks: those that are taken if none is named. jobs: help text of --jobs.
    """
    parser = argparse.ArgumentParser(prog=f"python -m bench.{name}", description=description)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"instead of {', '.join(networks)}")
    parser.add_argument("--jobs", type=int, default=1, help=f"{jobs} (%(default)s)")
    return parser
