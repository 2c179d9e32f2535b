"""Memory and time of one application with its weights in f32, f16 and 8 bits, whole and paged.

python -m bench.apps.three_networks [--build] [--folder FOLDER] [--rounds N]

Face landmarks, MobileNet v1 and ShuffleNet run one after the other. Each variant is a library; all are loaded in one
process and run in turns, with one thread and with two, on the same inputs. A ratio is of two libraries in one round.
Needs a quiet machine.
"""

import argparse
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.models import model_path
from bench.record import facts, write
from bench.rows import ROWS
from mavcg.apps.application_file import read_application_file
from mavcg.apps.library import build_application
from mavcg.model.request import ModelOptions, make_model_request
from mavcg.objects.elf import notes
from mavcg.runtime.application import LoadedApplication, load_application
from mavcg.runtime.random_inputs import random_inputs
from mavcg.text.terminal import say

NETWORKS = {"landmark": "face_landmark", "mobilenet": "mobilenet_v1-random", "shufflenet": "shufflenet-random"}
RESIDENT = 'weights_resident = "7 MB"'
WHOLE = "f32"  # that the others are compared with
# Of each variant: what app.toml says of the application, and of each network.
VARIANTS = {
    WHOLE: ("", ""),
    "f16": ("", 'weights = "f16"'),
    "int8": ("", 'weights = "int8"'),
    "int8, any error": ("", 'weights = "int8"\nmax_error = 0.9'),
    "f32, paged": (RESIDENT, ""),
    "f16, paged": (RESIDENT, 'weights = "f16"'),
    "int8, paged": (RESIDENT, 'weights = "int8"'),
}
THREADS, ROUNDS, RUNS = (1, 2), 40, 3


def application_text(variant: str, models: Mapping[str, Path]) -> str:
    """Return the app.toml of a variant. models: the file of each network."""
    of_all, of_each = VARIANTS[variant]
    tables = (f'[[network]]\nname = "{name}"\nfile = "{model}"\n{of_each}\n' for name, model in models.items())
    return f"{of_all}\n" + "".join(tables)


def build(folder: Path, variant: str) -> Path:
    """Return the library of a variant, which is built if it is not there."""
    library = folder / f"lib{variant.replace(', ', '_').replace(' ', '_')}.so"
    if library.exists():
        return library
    say(f"{variant}: building")
    file = library.with_suffix(".toml")
    file.write_text(application_text(variant, {name: model_path(model) for name, model in NETWORKS.items()}))
    request, _ = make_model_request(file, str(library), ModelOptions(board="host"))
    build_application(read_application_file(file), request)
    return library


def sizes(library: Path) -> dict[str, Any]:
    """Return a library's bytes of weights in memory, of buffers, and the largest error of its networks, as built.

    error: of the largest output of a network, on random inputs; None where all weights are as in the file.
    """
    (note,) = (each for each in notes(library) if "networks" in each)
    return sizes_of(note)


def sizes_of(note: Mapping[str, Any]) -> dict[str, Any]:
    """Return sizes by a library's note."""
    paging = note["weights_resident"]
    asked = [own["stored_weights"] for own in note["networks"] if own["stored_weights"]]
    stored = [each for each in asked if each["layers"]]  # a limit on the error may allow none
    return {
        "weight_bytes": note["weight_bytes"],
        "resident_bytes": note["weight_bytes"] if paging is None else paging["resident_bytes"],
        "arena_bytes": note["arena_bytes"],
        "stored_layers": sum(len(own["layers"]) for own in stored),
        "error": max((own["measured_error"] for own in stored), default=None),
    }


def time_rounds(libraries: Mapping[str, Path], threads: int, rounds: int) -> dict[str, list[float]]:
    """Return ms of one run of every network, by variant, for each round; each is the least of some runs in turn."""
    with ExitStack() as stack:
        apps = {
            variant: stack.enter_context(load_application(library, threads=threads))
            for variant, library in libraries.items()
        }
        first = next(iter(apps.values()))
        inputs = {name: random_inputs(first[name], 0) for name in NETWORKS}
        ms: dict[str, list[float]] = {variant: [] for variant in apps}
        for number in range(rounds + 1):  # the first one warms up
            for variant, app in apps.items():
                least = min(_run_all(app, inputs) for _ in range(RUNS))
                if number:
                    ms[variant].append(least)
    return ms


def _run_all(app: LoadedApplication, inputs: Mapping[str, Any]) -> float:
    start = time.perf_counter_ns()
    for name, arrays in inputs.items():
        app[name].run(*arrays)
    return (time.perf_counter_ns() - start) / 1e6


def rows_of(libraries: Mapping[str, Path], rounds: int) -> list[dict[str, Any]]:
    """Return the sizes and the times of each variant."""
    rows = {variant: {"variant": variant, **sizes(library), "timed": []} for variant, library in libraries.items()}
    for threads in THREADS:
        ms = time_rounds(libraries, threads, rounds)
        for variant, own in ms.items():
            ratios = sorted(each / whole for each, whole in zip(own, ms[WHOLE], strict=True))
            rows[variant]["timed"].append(
                {
                    "threads": threads,
                    "median_ms": round(statistics.median(own), 4),
                    "ratio": round(statistics.median(ratios), 4),
                    "low": round(ratios[len(ratios) // 10], 4),
                    "high": round(ratios[-1 - len(ratios) // 10], 4),
                }
            )
    return list(rows.values())


def main(words: Sequence[str] | None = None) -> None:
    """Build the libraries that are not there, time them, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROWS / "three_networks", help="of libraries, which are kept")
    parser.add_argument("--build", action="store_true", help="build the libraries, and time nothing")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds of runs; another number writes no record")
    options = parser.parse_args(words)
    options.folder.mkdir(parents=True, exist_ok=True)
    libraries = {variant: build(options.folder, variant) for variant in VARIANTS}
    if options.build:
        return
    rows = rows_of(libraries, options.rounds)
    for row in rows:
        whole = row["resident_bytes"] + row["arena_bytes"]
        times = ", ".join(f"{own['threads']} threads {own['median_ms']:.2f} ms x{own['ratio']}" for own in row["timed"])
        say(f"{row['variant']}: {whole / 1e6:.2f} MB of {row['weight_bytes'] / 1e6:.2f} of weights; {times}")
    if options.rounds == ROUNDS:
        result = facts("measured", "bench.apps.three_networks") | {"rows": rows}
        say(f"the record is {write('three_networks', result)}")


if __name__ == "__main__":
    main()
