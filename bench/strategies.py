"""Libraries of one network by each selection strategy, in interleaved rounds: `python -m bench.strategies`.

    python -m bench.strategies                                     all at once
    python -m bench.strategies --only build --folder F NETWORK     build the libraries that F lacks
    python -m bench.strategies --only time --folder F NETWORK      add rounds to F for --slice-seconds

`mavcg build --strategy` makes the libraries; "engine" uses only the engine's algorithms. A strategy whose name ends in
":tuned" uses the costs of --db, which `mavcg tune` measured; the others use modelled costs, whatever this user has
measured. One process loads all libraries, with each number of threads, and runs them in alternation
(strategy_rounds.py). A time with one thread is that thread's CPU time; with more threads it is wall time, of runs in
which no thread lost its CPU if there are such runs. The ratio is of medians of the same round, over the engine's;
beside it stands the ratio of the least medians, which other work on the machine disturbs least. A strategy whose
outputs differ from the engine's has no time. `same` means that every convolution is computed as in the engine's
library, without conversions. Strategies of --untimed are built but not run, because they would take too long: their
rows have predicted times.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.host_library import no_costs
from bench.models import model_path, shapes_of
from bench.record import facts, write
from bench.rows import measured
from bench.strategy_rounds import errors_of, figures, read_rounds, take_slice, threads_of

NETWORKS = (
    "squeezenet-random",
    "inception_v1-random",
    "resnet50-random",
    "alexnet-random",
    "vgg19-random",
    "mobilenet_v2",
)
ENGINE, TUNED = "engine", ":tuned"
STRATEGIES = (
    ENGINE,
    "pbqp",
    "local",
    "sum2d",
    "family:direct",
    "family:direct_blocked",
    "family:implicit",
    "family:im2",
    "family:kn2",
    "family:fft",
    "family:winograd",
)
ROUNDS, SECONDS = 9, 0.3


@dataclass(frozen=True)
class Library:
    """A built library and the report of `mavcg build --json`."""

    strategy: str
    path: Path
    said: dict[str, Any]


def _library(folder: Path, strategy: str) -> Path:
    return folder / f"lib{strategy.replace(':', '_')}.so"


def build(name: str, strategy: str, folder: Path, db: Path) -> Library:
    """Build a library in the folder if it is not there.

    Raises: RuntimeError with the command's message if it refuses, such as for a strategy that does not suit a network.
    """
    path = _library(folder, strategy)
    said = path.with_suffix(".json")
    if path.exists() and said.exists():
        return Library(strategy, path, json.loads(said.read_text()))
    command = [sys.executable, "-m", "mavcg.cli", "build", str(model_path(name)), "--board", "host", "-o", str(path)]
    command += ["--json", "--strategy", strategy.removesuffix(TUNED)]
    for tensor, shape in shapes_of(name).items():
        command += ["--shape", f"{tensor}={'x'.join(map(str, shape))}"]
    if strategy != ENGINE:
        command += ["--db", str(db if strategy.endswith(TUNED) else no_costs(folder))]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    said.write_text(done.stdout)
    return Library(strategy, path, json.loads(done.stdout))


def build_all(
    name: str, strategies: Sequence[str], folder: Path, db: Path, out: Console
) -> tuple[list[Library], dict[str, str]]:
    """Build all libraries, the engine's first; returns them, and the reasons of those that were refused."""
    refused, libraries = {}, []
    folder.mkdir(parents=True, exist_ok=True)
    for strategy in dict.fromkeys((ENGINE, *strategies)):
        try:
            libraries.append(build(name, strategy, folder, db))
            out.print(f"{name}: {strategy} built", style="dim")
        except RuntimeError as error:
            refused[strategy] = str(error)
            out.print(f"{name}: {strategy} refused: {error}", style="dim")
    return libraries, refused


def checked(libraries: Sequence[Library], folder: Path) -> dict[str, float]:
    """Return the libraries' errors, computed again if a library was built since the last time."""
    path, paths = folder / "errors.json", {library.strategy: library.path for library in libraries}
    newest = max(library_path.stat().st_mtime for library_path in paths.values())
    if path.exists() and path.stat().st_mtime > newest:
        known: dict[str, float] = json.loads(path.read_text())
        if known.keys() >= paths.keys():
            return known
    errors = errors_of(paths)
    path.write_text(json.dumps(errors))
    return errors


def network_entry(
    libraries: Sequence[Library], refused: dict[str, str], folder: Path, threads: Sequence[int], untimed: Sequence[str]
) -> dict[str, Any]:
    """Return the record's entry of one network, from all rounds in the folder."""
    timed = [library for library in libraries if library.strategy not in untimed]
    errors, paths = checked(timed, folder), {library.strategy: library.path for library in timed}
    taken = {count: read_rounds(paths, folder, count) for count in threads}
    times = {count: figures(rounds, ENGINE) for count, rounds in taken.items()}
    every = [each for rounds in taken.values() for each in rounds]
    rows, engine = {}, libraries[0].said
    for library in libraries:
        selection = library.said["selection"]
        rows[library.strategy] = {
            "times": {str(count): row[library.strategy] for count, row in times.items() if library.strategy in row},
            "same": library.said["primitives"] == engine["primitives"],
            "error": errors.get(library.strategy),
            "weight_bytes": library.said["weight_bytes"],
            "arena_bytes": library.said["arena_bytes"],
            "cost_ms": selection.get("total_ms"),
            "conversions": len(selection.get("conversions", ())),
            "cost_is": dict(Counter(node["cost_is"] for node in selection.get("nodes", ())).most_common()),
            "primitives": dict(Counter(p["primitive"] for p in library.said["primitives"]).most_common()),
        }
    return {
        "date": max(each["date"] for each in every),
        "since": min(each["date"] for each in every),
        "load_average": round(sum(each["load_average"] for each in every) / len(every), 2),
        "strategies": rows,
        "refused": refused,
    }


def show(networks: dict[str, Any], out: Console) -> None:
    """Print a table for each network."""
    for name, network in networks.items():
        table = Table(title=name, title_justify="left")
        titles = ("strategy", "threads", "rounds", "ms", "over engine", "spread", "least over", "predicted", "conv.")
        for title in (*titles, "same"):
            table.add_column(title, justify="left" if title == "strategy" else "right")
        for strategy, row in network["strategies"].items():
            cost = "" if row["cost_ms"] is None else f"{row['cost_ms']:.2f}"
            for threads, times in row["times"].items():
                table.add_row(
                    strategy,
                    threads,
                    str(times["rounds"]),
                    f"{times['ms']:.2f}",
                    f"{times['over_engine']:.3f}",
                    f"{times['spread']:.3f}",
                    f"{times['least_over_engine']:.3f}",
                    cost,
                    str(row["conversions"]),
                    "yes" if row["same"] else "",
                )
        out.print(table)
        for strategy, why in network["refused"].items():
            out.print(f"{strategy}: {why}")


def main() -> None:
    """Build, compare, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--strategies", default=",".join(STRATEGIES), help="with commas between")
    parser.add_argument("--threads", default="1,2", help="numbers, with commas between")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of a turn")
    parser.add_argument("--db", type=Path, help="costs that `mavcg tune` measured, of strategies that end in :tuned")
    parser.add_argument("--folder", type=Path, help="where libraries and rounds are, and stay")
    parser.add_argument("--only", choices=("build", "time"), help="libraries alone, or rounds of those that are there")
    parser.add_argument("--slice-seconds", type=float, default=float("inf"), help="of rounds: no more are begun then")
    parser.add_argument("--untimed", default="", help="of the strategies, those that are built and not run")
    parser.add_argument("--keep", action="store_true", help="what the record has of other networks stays")
    given = parser.parse_args()
    strategies, threads = given.strategies.split(","), [int(count) for count in given.threads.split(",")]
    untimed = given.untimed.split(",")
    if given.db is None and given.only != "time" and any(name.endswith(TUNED) for name in strategies):
        parser.error(f"a strategy that ends in {TUNED} needs --db FILE")
    if given.only and given.folder is None:
        parser.error(f"--only {given.only} needs --folder FOLDER")
    out = Console(stderr=True)
    networks: dict[str, Any] = {}
    if given.keep:
        networks = measured("strategies")["networks"]
    with tempfile.TemporaryDirectory(prefix="mavcg-strategies-") as temporary:
        for name in given.networks:
            folder = (given.folder or Path(temporary)) / name
            said = folder / "refused.json"
            if given.only == "time":
                there = (
                    strategy for strategy in strategies if _library(folder, strategy).with_suffix(".json").exists()
                )
                libraries = [build(name, strategy, folder, Path()) for strategy in dict.fromkeys((ENGINE, *there))]
                refused = json.loads(said.read_text())
            else:
                libraries, refused = build_all(name, strategies, folder, given.db or Path(), out)
                before = json.loads(said.read_text()) if said.exists() else {}
                refused = {
                    strategy: why for strategy, why in before.items() if not _library(folder, strategy).exists()
                } | refused
                said.write_text(json.dumps(refused))
                checked([library for library in libraries if library.strategy not in untimed], folder)
            if given.only == "build":
                continue
            paths = {library.strategy: library.path for library in libraries if library.strategy not in untimed}
            enough = take_slice(paths, folder, threads, given.rounds, given.seconds, given.slice_seconds)
            networks[name] = network_entry(libraries, refused, folder, threads_of(folder), untimed)
            show({name: networks[name]}, Console())
            if not enough:
                out.print(f"{name}: the slice is over; the next one goes on")
            write("strategies", facts("measured", "bench.strategies") | {"networks": networks})


if __name__ == "__main__":
    main()
