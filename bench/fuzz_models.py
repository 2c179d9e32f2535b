"""Damaged model files, processed until their kernels are chosen: `python -m bench.fuzz_models --count 10000`.

Each file is *built* (import, all passes, kernels and storage chosen), or *refused* with a MavcgError of one line. What
else happens is a fault: *crash* (another exception, or the end of the process), *hang* (more than 10 s), *memory*
(more than 2 GB). A file follows from --seed and its number alone: --only NUMBER does one again, --keep writes it.
"""

import argparse
import collections
import json
import os
import random
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.fuzz_mutations import mutated
from bench.fuzz_seeds import Seed, seeds
from bench.isolated import Died, each
from bench.record import facts, write
from mavcg.choose.lowering.lower import lower_graph
from mavcg.errors import MavcgError
from mavcg.importers.load import import_model
from mavcg.passes.graph.pipeline import optimise
from mavcg.specs.kernel import Packing

LONGEST_S = 10.0  # of the processor's time: others may be using it
LONGEST_WAIT_S = 90.0
MOST_BYTES = 2 << 30
FAULTS = ("crash", "hang", "memory")


@dataclass(frozen=True)
class Outcome:
    """The result of file number `number`.

    status: built, refused, crash, hang or memory; reason: the error's text; seconds: CPU time; peak_bytes: the largest
    resident memory of its process so far.
    """

    number: int
    seed: str
    status: str
    reason: str = ""
    seconds: float = 0.0
    peak_bytes: int = 0


def file_of(number: int, seed: int, among: Sequence[Seed]) -> tuple[Seed, bytes]:
    """Return the seed's name and the bytes of file number `number`."""
    source = random.Random(f"{seed}:{number}")
    chosen = source.choice(among)
    # One in two is a network, of which there are few.
    networks = [s for s in among if not s.name.startswith("test_")]
    if source.random() < 0.5:
        chosen = source.choice(networks)
    return chosen, mutated(source, chosen)


def lower_file(path: Path) -> None:
    """Import, optimise and lower a model file. Raises: MavcgError if it is refused."""
    lower_graph(optimise(import_model(path, {})), Packing(lanes=16))


def outcome_of(number: int, seed: int, among: Sequence[Seed], folder: Path) -> Outcome:
    """Lower one file in this process."""
    chosen, data = file_of(number, seed, among)
    path = folder / f"{number}{chosen.suffix}"
    path.write_bytes(data)
    started = time.process_time()
    status, reason = "built", ""
    try:
        lower_file(path)
    except MavcgError as error:
        reason = str(error).replace(str(path), path.name)
        status = "refused" if reason and reason.isprintable() else "crash"
    except MemoryError:
        status, reason = "memory", _where()
    except Exception as error:
        status, reason = "crash", f"{type(error).__name__}: {error} ({_where()})"
    finally:
        path.unlink()
    seconds = time.process_time() - started
    if seconds > LONGEST_S:
        status, reason = "hang", f"took {seconds:.1f} s, to end as {status} {reason}"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Outcome(number, chosen.name, status, reason[:500], seconds, peak)


def _where() -> str:
    frames = traceback.extract_tb(sys.exc_info()[2])[-4:]
    return " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames))


def fuzz(numbers: Sequence[int], seed: int, among: Sequence[Seed], workers: int = 1) -> Iterable[Outcome]:
    """Process the files of these numbers, each in a process with limits."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        results = each(
            lambda i: outcome_of(numbers[i], seed, among, folder), len(numbers), LONGEST_WAIT_S, MOST_BYTES, workers
        )
        for result in results:
            if isinstance(result.value, Died):
                number, died = numbers[result.index], result.value
                yield Outcome(number, file_of(number, seed, among)[0].name, died.kind, died.reason)
            else:
                yield result.value


def counts(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """Return the number of files by status."""
    by_status = collections.Counter(o.status for o in outcomes)
    return {status: by_status[status] for status in ("built", "refused", *FAULTS)}


def main() -> None:
    """Run the command line; exit status 1 if there was a fault."""
    parser = argparse.ArgumentParser(prog="python -m bench.fuzz_models", description="Damaged model files")
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this file alone")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="write the file of --only, and those with faults")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    among = seeds()
    numbers = [arguments.only] if arguments.only is not None else list(range(arguments.count))
    outcomes = []
    for outcome in fuzz(numbers, arguments.seed, among, max(1, arguments.workers)):
        outcomes.append(outcome)
        if outcome.status in FAULTS:
            print(f"{outcome.status}: {outcome.number} ({outcome.seed}): {outcome.reason}", file=sys.stderr, flush=True)
        if arguments.keep and (outcome.status in FAULTS or arguments.only is not None):
            chosen, data = file_of(outcome.number, arguments.seed, among)
            arguments.keep.mkdir(parents=True, exist_ok=True)
            (arguments.keep / f"{outcome.number}{chosen.suffix}").write_bytes(data)
    by_status = counts(outcomes)
    record = facts("counted", f"bench.fuzz_models --count {len(numbers)} --seed {arguments.seed}") | {
        "files": len(outcomes),
        "counts": by_status,
        "seeds": len(among),
        "longest_s": round(max(o.seconds for o in outcomes), 2),
        "peak_bytes": max(o.peak_bytes for o in outcomes),
        "faults": [asdict(o) for o in outcomes if o.status in FAULTS],
    }
    if arguments.only is None:
        write("fuzz_models", record)
    if arguments.json:
        json.dump(record, sys.stdout, indent=2)
        print()
    else:
        print(", ".join(f"{status} {count}" for status, count in by_status.items()))
        print(f"longest {record['longest_s']} s, at most {record['peak_bytes'] / 1e6:.0f} MB")
        if arguments.only is not None:
            print(outcomes[0])
    sys.exit(1 if any(by_status[fault] for fault in FAULTS) else 0)


if __name__ == "__main__":
    main()
