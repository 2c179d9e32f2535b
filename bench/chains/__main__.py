"""Differential testing by chains: `python -m bench.chains --minutes 30 --seed 1`, or `make differential MINUTES=30`.

The run of a seed goes on where it ended before; chains with a fault are judged again. A fault is shrunk and kept as
build/chains/SEED-NUMBER.json, with its verdict; `--file` judges such a file again, `--only NUMBER` a chain of the seed.
"""

import argparse
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path

from bench.chains import results
from bench.chains.chain import Chain
from bench.chains.libraries import ARM, BOARD, CORES, GENERIC, ROWS, Judged, judged
from bench.chains.random_chain import BATCH, random_chain
from bench.chains.results import Outcome
from bench.chains.shrinking import shrunk
from bench.chains.verdict import CRASH, FAULTS, Verdict, opinions_of
from bench.differential.arm import emulator
from bench.differential.part import Array
from bench.isolated import Died, each
from mavcg.errors import MavcgError

BUILDS = (GENERIC, BOARD, GENERIC, CORES, GENERIC, ROWS, BOARD, ARM)  # of one library after the other
LIBRARY_SECONDS = 3600.0  # a machine that others use may be slow
SHRINK_SECONDS = 90.0
AT_ONCE = 4  # libraries that a worker's process judges before it is made anew


def build_of(number: int) -> str:
    """Return how the library with this chain is built; AArch64 where there is an emulator."""
    kind = BUILDS[number // BATCH % len(BUILDS)]
    return GENERIC if kind == ARM and emulator() is None else kind


def isolated(chains: Sequence[Chain], kind: str, folder: Path) -> list[Judged]:
    """Return `judged` from a process of its own, which may crash or hang."""
    (result,) = each(lambda _: judged(chains, kind, folder), 1, LIBRARY_SECONDS)
    if isinstance(result.value, Died):
        return [Judged(Verdict(result.value.kind, result.value.reason))] * len(chains)
    done: list[Judged] = result.value
    return done


def outcomes_of(seed: int, numbers: Sequence[int], folder: Path) -> list[Outcome]:
    """Judge the chains of one library; raises nothing: what goes wrong is a verdict."""
    chains: dict[int, Chain] = {}
    outcomes = []
    for number in numbers:
        try:
            chains[number] = random_chain(seed, number)
        except Exception as error:
            outcomes.append(results.outcome(number, None, _crash(error)))
    try:
        done = judged(list(chains.values()), build_of(numbers[0]), folder) if chains else []
    except Exception as error:
        done = [_crash(error)] * len(chains)
    return outcomes + [results.outcome(*one) for one in zip(chains, chains.values(), done, strict=True)]


def _crash(error: Exception) -> Judged:
    return Judged(Verdict(CRASH, f"{type(error).__name__}: {error}"[:300]))


def shrink(chain: Chain, found: Verdict, kind: str, folder: Path) -> tuple[Chain, Verdict]:
    """Return the smallest chain with the fault, and its verdict."""

    def values(of: Chain) -> dict[str, Array]:
        opinions = opinions_of(of)
        return dict(opinions.runtime or {})

    def judge(chains: Sequence[Chain]) -> list[Verdict]:
        return [one.verdict for one in isolated(chains, kind, folder)]

    return shrunk(chain, found, judge, values, SHRINK_SECONDS)


def load_once() -> None:
    """Load what each library needs, before its process is copied from this one."""
    import onnxruntime  # noqa: F401


def run(seed: int, done: Collection[int], end: float, workers: int, count: int | None) -> Iterator[list[Outcome]]:
    """Yield the outcomes of each library of chains that are not done, until the time is over or `count` is reached."""
    load_once()
    libraries = (range(at * BATCH, (at + 1) * BATCH) for at in itertools.count())
    todo = (numbers for numbers in libraries if not set(numbers) <= set(done))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        while time.monotonic() < end:
            next_ones = [n for n in itertools.islice(todo, workers * AT_ONCE) if count is None or n[0] < count]
            if not next_ones:
                return
            work = partial(_outcomes_in_time, seed, next_ones, folder, end)
            for result in each(work, len(next_ones), LIBRARY_SECONDS, None, workers):
                if isinstance(result.value, Died):
                    verdict = Judged(Verdict(result.value.kind, result.value.reason))
                    yield [results.outcome(number, None, verdict) for number in next_ones[result.index]]
                else:
                    yield result.value


def _outcomes_in_time(
    seed: int, libraries: Sequence[Sequence[int]], folder: Path, end: float, index: int
) -> list[Outcome]:
    return outcomes_of(seed, libraries[index], folder) if time.monotonic() < end else []


def keep_shrunk(seed: int, outcome: Outcome) -> None:
    """Shrink a fault and keep it in a file, which is named."""
    chain, kind = random_chain(seed, outcome.number), build_of(outcome.number)
    with tempfile.TemporaryDirectory() as name:
        small, verdict = shrink(chain, Verdict(outcome.status, outcome.reason), kind, Path(name))
    path = results.keep(seed, outcome.number, kind, small, verdict)
    print(
        f"{outcome.status}: {outcome.number}: {outcome.reason}\n  {path}: {verdict.reason}", file=sys.stderr, flush=True
    )


def main() -> None:
    """Run the command line; exit status 1 if a chain has a fault."""
    parser = argparse.ArgumentParser(prog="python -m bench.chains", description="Random chains of operators, judged")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, help="up to this number of chains, whatever the minutes")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this chain alone")
    parser.add_argument("--file", type=Path, metavar="FILE", help="the chain of a file that a run kept")
    parser.add_argument("--shrink", action="store_true", help="with --only: shrink it if it has a fault, and keep it")
    parser.add_argument("--record", action="store_true", help="add the counts of all runs of this seed to the record")
    options = parser.parse_args()
    if options.file is not None or options.only is not None:
        try:
            sys.exit(_one(options))
        except MavcgError as error:
            sys.exit(f"bench.chains: {error}")
    done = results.load(options.seed)
    end = time.monotonic() + 60 * options.minutes
    numbers = {one.number for one in done if one.status not in FAULTS}  # faults are judged again
    for outcomes in run(options.seed, numbers, end, max(1, options.workers), options.count):
        results.append(options.seed, outcomes)
        again = {one.number for one in outcomes}
        done = [one for one in done if one.number not in again] + outcomes
        for outcome in outcomes:
            if outcome.status in FAULTS and outcome.format:
                keep_shrunk(options.seed, outcome)
            elif outcome.status in FAULTS:
                print(f"{outcome.status}: {outcome.number}: {outcome.reason}", file=sys.stderr, flush=True)
        if len(done) // BATCH % 20 == 0:
            print(results.counts_line(done), file=sys.stderr, flush=True)
    print(results.counts_line(done))
    if options.record:
        results.record(options.seed, done)
    sys.exit(1 if any(outcome.status in FAULTS for outcome in done) else 0)


def _one(options: argparse.Namespace) -> int:
    """Judge one chain, print it and its verdict; 1 if it has a fault."""
    if options.file is not None:
        chain, kind = results.kept(options.file)
    else:
        chain, kind = random_chain(options.seed, options.only), build_of(options.only)
    with tempfile.TemporaryDirectory() as name:
        (one,) = isolated([chain], kind, Path(name))
        print(f"{chain}\n{kind}: {one.verdict.status}: {one.verdict.reason}")
        if options.shrink and one.verdict.status in FAULTS:
            small, verdict = shrink(chain, one.verdict, kind, Path(name))
            print(f"{small}\n{results.keep(options.seed, options.only, kind, small, verdict)}: {verdict.reason}")
    return int(one.verdict.status in FAULTS)


if __name__ == "__main__":
    main()
