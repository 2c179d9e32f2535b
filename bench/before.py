"""Libraries of this checkout and of an earlier one, timed interleaved: `python -m bench.before FOLDER`.

F is a checkout of the earlier state with an environment of its own (`git worktree add F COMMIT`, then `make -C F
setup`). Each state builds every network for this machine with its own code, and loads the library with its own runtime
in its own process; the processes take turns as bench/interleaved.py says. A ratio is now over then, the median of the
rounds' ratios: below 1 is faster.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.interleaved import round_medians, start
from bench.models import model_path
from bench.peers import NETWORKS, ROUNDS, difference, model_name, note, outputs_of
from bench.record import facts, write
from bench.records import ROOT
from bench.runners import built_library
from mavcg.errors import MavcgError

NOW, THEN = "now", "then"
_BUILD = (
    "import sys; from pathlib import Path; from bench.runners import built_library; "
    "print(built_library(Path(sys.argv[1])))"
)


def interpreter(checkout: Path) -> Path:
    """Return the Python of another checkout. Raises: MavcgError if it has no environment."""
    python = checkout / ".venv" / "bin" / "python"
    if not (checkout / "bench" / "worker.py").is_file() or not python.is_file():
        raise MavcgError(
            f"{checkout}: is not a checkout of mavcg with an environment; make -C {checkout} setup makes one"
        )
    return python


def library_then(checkout: Path, model: Path) -> Path:
    """Build a model with another checkout's code, or return the library that it cached. Raises: MavcgError."""
    command = [str(interpreter(checkout)), "-c", _BUILD, str(model)]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True)
    if done.returncode:
        raise MavcgError(f"{model.name}: {checkout} cannot build it: {done.stderr.strip().splitlines()[-1:]}")
    return Path(done.stdout.strip().splitlines()[-1])


def compare(name: str, checkout: Path, threads: int, rounds: int) -> dict[str, Any]:
    """Time one network's two libraries.

    Returns a row: medians in ms, the median ratio of now over then, its quartiles.
    """
    model = model_path(name)
    libraries = {NOW: built_library(model), THEN: library_then(checkout, model)}
    pythons = {NOW: Path(sys.executable), THEN: interpreter(checkout)}
    workers = []
    try:
        for state, folder in ((NOW, ROOT), (THEN, checkout)):
            script = folder / "bench" / "worker.py"
            worker = start("mavcg", libraries[state], threads, str(pythons[state]), script=script)
            worker.runtime = state
            workers.append(worker)
        outputs = outputs_of(workers, {})
        medians = round_medians(workers, rounds)
    finally:
        for worker in workers:
            worker.end()
    ratios = [now / then for now, then in zip(medians[NOW], medians[THEN], strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return {
        "network": name,
        "threads": threads,
        "rounds": rounds,
        "now_ms": round(statistics.median(medians[NOW]), 4),
        "then_ms": round(statistics.median(medians[THEN]), 4),
        "ratio": round(middle, 4),
        "quartiles": [round(low, 4), round(high, 4)],
        "difference": difference(outputs[NOW], outputs[THEN]),
    }


def commit_of(checkout: Path) -> str:
    """Return the short name of a checkout's commit; empty without git."""
    command = ["git", "-C", str(checkout), "log", "-1", "--format=%h of %ad", "--date=short"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def main() -> None:
    """Compare, print, and write bench/results/before.json when all networks were timed with one thread and two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--networks", default=",".join(NETWORKS), help="names, with commas")
    parser.add_argument("--threads", default="1,2", help="numbers, one after the other")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--prepare", action="store_true", help="build all libraries, and end")
    parser.add_argument("--json", action="store_true", help="print the rows instead of a table")
    args = parser.parse_args()
    try:
        checkout = args.checkout.resolve()
        networks = [model_name(text) for text in args.networks.split(",")]
        counts = [int(text) for text in args.threads.split(",")]
        interpreter(checkout)
        if args.prepare:
            for name in networks:
                note(f"preparing {name}")
                built_library(model_path(name))
                library_then(checkout, model_path(name))
            return
        rows = []
        for threads in counts:
            for name in networks:
                rows.append(compare(name, checkout, threads, args.rounds))
                note(f"{name}, {threads} threads: {rows[-1]['ratio']:.3f} {rows[-1]['quartiles']}")
    except MavcgError as error:
        sys.exit(f"bench.before: {error}")
    mean = round(statistics.geometric_mean(row["ratio"] for row in rows), 4)
    if tuple(networks) == NETWORKS and counts == [1, 2]:
        record = {
            **facts("measured", "bench.before"),
            "then": commit_of(checkout),
            "mean": mean,
            "rows": rows,
        }
        write("before", record)
    if args.json:
        print(json.dumps(rows, indent=2))
        return
    table = Table(box=None)
    for title in ("network", "threads", "now, ms", "then, ms", "now / then", "quartiles"):
        table.add_column(title, justify="left" if title == "network" else "right")
    for row in rows:
        quartiles = " to ".join(f"{value:.3f}" for value in row["quartiles"])
        times = (f"{row['now_ms']:.2f}", f"{row['then_ms']:.2f}", f"{row['ratio']:.3f}")
        table.add_row(row["network"], str(row["threads"]), *times, quartiles)
    Console(width=120).print(table)
    print(f"geometric mean {mean:.3f}, then: {commit_of(checkout)}")


if __name__ == "__main__":
    main()
