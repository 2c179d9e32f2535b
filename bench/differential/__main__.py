"""Random graphs against onnxruntime: `python -m bench.differential --count 10000 --seed 0`.

Many independent graphs form one model, whose library is built once. Each graph has its own inputs and outputs, which
lie next to inaccessible pages. A graph depends only on --seed and its number: --only NUMBER repeats it. A difference is
*explained* if docs/operators.md has its class; any other difference fails the run.
"""

import argparse
import collections
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.differential.libraries import Compared, check_batch
from bench.differential.part import OPSETS
from bench.isolated import Died, each
from bench.record import facts, write
from bench.rows import measured

BATCH = 96  # graphs of one library
BATCH_SECONDS = 600.0


def compare_all(numbers: Sequence[int], seed: int, workers: int, with_arm: bool = False) -> Iterator[Compared]:
    """Compare the graphs of these numbers: BATCH graphs in a library, each library in a process that may crash."""
    batches = [numbers[at : at + BATCH] for at in range(0, len(numbers), BATCH)]
    with tempfile.TemporaryDirectory() as name:
        done = each(
            lambda i: check_batch(batches[i][0] // BATCH, seed, batches[i], Path(name), with_arm),
            len(batches),
            BATCH_SECONDS,
            None,
            workers,
        )
        for result in done:
            if isinstance(result.value, Died):
                for number in batches[result.index]:
                    yield Compared(number, (), result.value.kind, result.value.reason)
            else:
                yield from result.value


def summary(results: Sequence[Compared]) -> dict[str, Any]:
    """Return the counts of a record."""
    judged = [result for result in results if result.status in ("same", "explained", "different")]
    versions = collections.Counter(version for result in judged for version in result.versions)
    return {
        "graphs": len(results),
        "counts": dict(collections.Counter(result.status for result in results)),
        "formats": dict(collections.Counter(result.format for result in results)),
        "types": dict(collections.Counter(result.dtype for result in results if result.dtype).most_common()),
        "graphs_by_version": dict(versions.most_common()),
        "operators": sorted({operator for result in results for operator in result.operators}),
        "opsets": list(OPSETS),
        "explained": dict(collections.Counter(r.reason for r in results if r.status == "explained").most_common()),
    }


def again(workers: int) -> None:
    """Compare the graphs again that the record leaves unexplained, and store the new verdicts.

    Exit status 1 if some stay.
    """
    record = measured("differential")
    numbers = [each["number"] for each in record["unexplained"]]
    seed = int(record["command"].rpartition(" ")[2])
    results = [result for number in numbers for result in compare_all([number], seed, workers)]
    counts = collections.Counter(record["counts"])
    counts.subtract(each["status"] for each in record["unexplained"])
    counts.update(result.status for result in results)
    classes = collections.Counter(record["explained"])
    classes.update(result.reason for result in results if result.status == "explained")
    record["counts"] = {status: count for status, count in counts.items() if count}
    record["explained"] = dict(classes.most_common())
    record["unexplained"] = [asdict(result) for result in results if result.status in ("different", "crash", "hang")]
    record["compared_again"] = sorted({*record.get("compared_again", ()), *numbers})
    write("differential", record)
    print(", ".join(f"{result.number}: {result.status} ({result.reason})" for result in results))
    sys.exit(1 if record["unexplained"] else 0)


def main() -> None:
    """Compare graphs; exit status 1 if a difference is not explained, or a batch died."""
    parser = argparse.ArgumentParser(prog="python -m bench.differential", description="Random graphs, onnxruntime")
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this graph alone, with its batch's opset")
    parser.add_argument("--again", action="store_true", help="only those that the record leaves unexplained, for it")
    parser.add_argument("--arm", action="store_true", help="one library in 16 for AArch64, under qemu (slow)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    if arguments.again:
        again(max(1, arguments.workers))
        return
    numbers = [arguments.only] if arguments.only is not None else list(range(arguments.count))
    results: list[Compared] = []
    with contextlib.suppress(KeyboardInterrupt):  # what is done is recorded
        for result in compare_all(numbers, arguments.seed, max(1, arguments.workers), arguments.arm):
            results.append(result)
            if len(results) % 500 == 0:
                print(f"{len(results)} of {len(numbers)} graphs", file=sys.stderr, flush=True)
            if result.status in ("different", "crash", "hang"):
                print(f"{result.status}: {result.number}: {result.reason}", file=sys.stderr, flush=True)
    bad = [asdict(result) for result in results if result.status in ("different", "crash", "hang")]
    record = facts("counted", f"bench.differential --count {arguments.count} --seed {arguments.seed}")
    record |= summary(results) | {"unexplained": bad}
    counts = record["counts"]
    if arguments.only is None:
        write("differential", record)
    if arguments.json:
        json.dump(record, sys.stdout, indent=2)
        print()
    else:
        print(", ".join(f"{status} {count}" for status, count in counts.items()))
        if arguments.only is not None:
            print(results)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
