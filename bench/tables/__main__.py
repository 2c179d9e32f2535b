"""Print records whole: `python -m bench.tables [NAME ...]`."""

import argparse
import sys
from collections.abc import Sequence

from bench import records
from bench.records import RESULTS
from bench.tables.catalogue import shown
from mavcg.errors import MavcgError


def main(arguments: Sequence[str] = ()) -> None:
    """Print the tables of the records with these names, or of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of bench/results; all where none is given")
    names = parser.parse_args(arguments).names or sorted(path.stem for path in RESULTS.glob("*.json"))
    try:
        print("\n".join(shown(records.read(RESULTS / f"{name}.json")) for name in names))
    except MavcgError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
