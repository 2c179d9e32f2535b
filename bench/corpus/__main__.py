"""Build the corpus and compare: `python -m bench.corpus [PACKAGE ...] [--way WAY] [--minutes N]`.

Each of Debian's source packages in bench/corpus/packages.toml is built as it is and under `mavcg launch`, with the hot
functions of a profile of its own work, by each compiler of this machine (gcc, clang, zig) and for AArch64. Both builds'
programs must give the same bytes, on AArch64 on seven emulated cores and one that is none of them, and the package's
own tests must pass with versions. Rows are kept in build/bench/corpus.json; a further run goes on where one ended, and
--again tries all anew. --minutes: no package is begun after that. --no-times leaves out what only a quiet machine can
measure.
"""

import argparse
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.corpus.inputs import write_inputs
from bench.corpus.packages import read_packages
from bench.corpus.trial import try_package
from bench.corpus.ways import ways
from bench.record import facts, measured_or_none, write


def main() -> None:
    """Try what is not known yet, and write bench/results/corpus.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help="only these")
    parser.add_argument("--way", choices=sorted(ways()), help="only this compiler")
    parser.add_argument("--minutes", type=float, default=60, help="begin nothing after this time (60)")
    parser.add_argument("--again", action="store_true", help="try what is known already, too")
    parser.add_argument("--no-times", action="store_true", help="do not measure the programs")
    chosen = parser.parse_args()
    written = None
    end = time.monotonic() + 60 * chosen.minutes
    rows = {_key(row): row for row in (measured_or_none("corpus") or {}).get("rows", ())}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_inputs(folder / "data")
        for package in read_packages(chosen.packages):
            (folder / package.source).mkdir()
            for name, way in ways().items():
                key = f"{package.source} {name}"
                if (
                    chosen.way not in (None, name)
                    or (way.arm and not package.arm)
                    or (key in rows and not chosen.again)
                ):
                    continue
                if time.monotonic() > end:
                    break
                row = try_package(package, way, folder / package.source, folder / "data", not chosen.no_times)
                print(f"{key}: {row.verdict}", flush=True)
                rows[key] = asdict(row)
                listed = [row for _, row in sorted(rows.items())]
                written = write("corpus", facts("measured", "bench.corpus") | {"rows": listed})
    print(written or "corpus: nothing left to try; --again tries all anew")


def _key(row: Mapping[str, Any]) -> str:
    return f"{row['package']} {row['way']}"


if __name__ == "__main__":
    main()
