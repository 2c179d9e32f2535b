"""Build the corpus and compare: `python -m bench.corpus [PACKAGE ...] [--way WAY ..] [--minutes N]`.

Each of Debian's source packages in bench/corpus/packages.toml is built as it is, under `mavcg launch`, with the hot
functions of a profile of its own work, and with `mavcg build` in its place for the same objects, by each compiler of
this machine (gcc, clang, zig) and for AArch64. All builds' programs must give the same bytes, on AArch64 on seven
emulated cores and one that is none of them, and the package's own tests must pass with versions. A crate is built by
rustc; `mavcg build` makes its object of LLVM bitcode. Some packages need Debian's meson, aom-tools, m4 and tcl beside
what `make setup` installs, and clang and gcc-aarch64-linux-gnu are further compilers.

Rows go into the record beside those of other runs, in place of older ones of the same package and compiler. A further
run on this machine goes on where one ended, and --again tries all anew; several may run at once, each with packages of
its own. --minutes: no package is begun after that.
--no-times leaves out what only a quiet machine can measure, CPU time of builds and time of programs; a later run
without it tries those rows again.
"""

import argparse
import fcntl
import tempfile
import time
from collections.abc import Set as AbstractSet
from dataclasses import asdict
from pathlib import Path

from bench import records
from bench.corpus.inputs import write_inputs
from bench.corpus.packages import read_packages
from bench.corpus.rows import Row, Rows, merged, rows_of
from bench.corpus.trial import try_package
from bench.corpus.ways import ways, ways_of
from bench.record import facts, write
from bench.records import RESULTS
from bench.rows import ROWS, measured_or_none


def main() -> None:
    """Try what is not known yet on this machine, and merge it into bench/results/corpus.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help="only these")
    parser.add_argument("--way", choices=sorted(ways()), action="append", help="only this compiler; may be repeated")
    parser.add_argument("--minutes", type=float, default=60, help="begin nothing after this time (60)")
    parser.add_argument("--again", action="store_true", help="try what is known already, too")
    parser.add_argument("--no-times", action="store_true", help="measure no times: the machine is not quiet")
    chosen = parser.parse_args()
    written = None
    end = time.monotonic() + 60 * chosen.minutes
    rows, tried = known_rows(RESULTS / "corpus.json")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_inputs(folder / "data")
        for package in read_packages(chosen.packages):
            (folder / package.source).mkdir()
            for way in ways_of(package):
                at = package.source, way.name
                is_known = at in tried and (chosen.no_times or rows[at].plain_s > 0)
                if (chosen.way and way.name not in chosen.way) or (is_known and not chosen.again):
                    continue
                if time.monotonic() > end:
                    break
                row = try_package(package, way, folder / package.source, folder / "data", not chosen.no_times)
                print(f"{package.source} {way.name}: {row.verdict}", flush=True)
                written = add_row(row, RESULTS / "corpus.json")
    print(written or "corpus: nothing left to try; --again tries all anew")


def known_rows(record: Path) -> tuple[Rows, AbstractSet[tuple[str, str]]]:
    """Return the rows of a record, those of this machine before others; and which were tried on this machine."""
    rows: Rows = rows_of(records.read(record)) if record.is_file() else {}
    here = measured_or_none("corpus")
    tried = {(package, way) for package, way in here.get("tried", ())}
    mine = [Row(**row) for row in here.get("rows", ()) if (row["package"], row["way"]) in tried]
    newer = [row for row in mine if row.date >= rows.get((row.package, row.way), row).date]
    return merged(rows, newer), tried


def add_row(row: Row, record: Path) -> Path:
    """Write the record with one more row, that of what was tried just now, beside those of runs that have ended since
    this one began. Returns: the record's path."""
    ROWS.mkdir(parents=True, exist_ok=True)
    with open(ROWS / "corpus.lock", "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed
        rows, tried = known_rows(record)
        return write_rows(merged(rows, [row]), tried | {(row.package, row.way)})


def write_rows(rows: Rows, tried: AbstractSet[tuple[str, str]]) -> Path:
    """Write the record of all rows, with the date and commit of the oldest: no figure of it is older.

    tried: those of this machine; with others among the rows, the record is of several.
    """
    oldest = min(rows.values(), key=lambda row: row.date)
    head = facts("measured", "bench.corpus") | {"date": f"{oldest.date} 00:00 UTC", "commit": oldest.commit}
    if rows.keys() - tried:
        head["machine"] = {**head["machine"], "processor": "several"}
    return write("corpus", head | {"rows": [asdict(row) for row in rows.values()], "tried": sorted(tried)})


if __name__ == "__main__":
    main()
