"""Libraries of any length beside those of one length: `python -m bench.lengths [--processes N] [--rounds N] [--json]`.

For each network of networks.py one library with a bounded dimension, and one for each of its lengths, with the same
kernels (`--strategy engine --max-error 0`), for this machine. Their bytes are counted. Times are of one thread, in
rounds in which both libraries of a length run one after the other, every second round the other way round, in several
processes, as memory lies elsewhere in each; figures are medians over all rounds. Results have to be the same bits from
a length of 2 on. Run it while nothing else runs: some six minutes, of which most are builds.
"""

import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from bench.isolated import Died, each
from bench.lengths.networks import NETWORKS, Network
from bench.record import facts, parser_with_json, write
from bench.strategy_rounds import timed
from bench.tables.catalogue import show_record

SECONDS = 0.03  # of a library in a round
PROCESS_SECONDS = 300.0


def build(model: Path, library: Path, shape: str) -> Path:
    """Build for this machine with the engine's own algorithms."""
    from mavcg.model.model import build_model
    from mavcg.model.request import ModelOptions, SelectionOptions, make_model_request

    options = ModelOptions(board="host", shapes=[shape], max_error=0.0, bounded=True)
    build_model(make_model_request(model, str(library), options, SelectionOptions(strategy="engine"))[0])
    return library


def libraries_of(network: Network, folder: Path) -> dict[int | None, Path]:
    """Build a network's libraries: for any length, at None, and for each one."""
    import onnx

    model, most = folder / "network.onnx", network.lengths[-1]
    onnx.save(network.model(), model)
    least = min(network.lengths[0], 32)
    bounds = f"{network.input}={network.shape.format(f'{least}..{most}')}"
    libraries: dict[int | None, Path] = {None: build(model, folder / "libany.so", bounds)}
    for length in network.lengths:
        shape = f"{network.input}={network.shape.format(length)}"
        libraries[length] = build(model, folder / f"lib{length}.so", shape)
    return libraries


def rounds_of(libraries: Mapping[int | None, Path], rounds: int) -> dict[int, list[tuple[float, float]]]:
    """Return the ms of the library for any length and of that for one, by length, of every round in this process.

    Raises: RuntimeError for other bits.
    """
    from mavcg.runtime.loading import load

    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-1]})
    found: dict[int, list[tuple[float, float]]] = {}
    with load(libraries[None], threads=1) as any_length:
        for length, path in libraries.items():
            if length is None:
                continue
            with load(path, threads=1) as fixed:
                arrays = inputs_of(fixed)
                pairs = zip(any_length.run(*arrays), fixed.run(*arrays), strict=True)
                if length > 1 and any(a.tobytes() != b.tobytes() for a, b in pairs):
                    raise RuntimeError(f"length {length}: other bits than those of the library for it")
                for number in range(rounds):
                    order = (any_length, fixed) if number % 2 else (fixed, any_length)
                    took = {model.path: timed(model, arrays, 1, SECONDS) for model in order}
                    found.setdefault(length, []).append((took[any_length.path], took[fixed.path]))
    return found


def inputs_of(model: Any) -> list[Any]:
    """Return numbers from seed 0 for every input: normal ones, or those of words."""
    rng = np.random.default_rng(0)
    return [
        rng.standard_normal(t.shape).astype(t.dtype) if t.dtype.kind == "f" else rng.integers(0, 900, t.shape, t.dtype)
        for t in model.inputs
    ]


def measure(name: str, libraries: Mapping[int | None, Path], processes: int, rounds: int) -> list[dict[str, Any]]:
    """Return a row for each length. Raises: RuntimeError if a process died."""
    pairs: dict[int, list[tuple[float, float]]] = {}
    for result in each(lambda _: rounds_of(libraries, rounds), processes, PROCESS_SECONDS):
        if isinstance(result.value, Died):
            raise RuntimeError(f"{name}: a process {result.value.reason}")
        for length, more in result.value.items():
            pairs.setdefault(length, []).extend(more)
    return [row_of(name, length, of_length) for length, of_length in pairs.items()]


def row_of(name: str, length: int, pairs: Sequence[tuple[float, float]]) -> dict[str, Any]:
    ratios = sorted(a / b for a, b in pairs)
    low, middle, high = statistics.quantiles(ratios, n=4)
    return {
        "network": name,
        "length": length,
        "any_ms": round(statistics.median(a for a, _ in pairs), 4),
        "fixed_ms": round(statistics.median(b for _, b in pairs), 4),
        "ratio": round(middle, 3),
        "from": round(low, 3),
        "to": round(high, 3),
    }


def main() -> None:
    """Measure, print, and write bench/results/lengths.json; exit status 1 where results have other bits."""
    parser = parser_with_json(__doc__, "all rows instead of tables")
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    rows, sizes = list[dict[str, Any]](), list[dict[str, Any]]()
    for name, network in NETWORKS.items():
        with TemporaryDirectory(prefix="mavcg-lengths-") as folder:
            print(f"{name}: building {len(network.lengths) + 1} libraries", file=sys.stderr, flush=True)
            libraries = libraries_of(network, Path(folder))
            own, fixed = (libraries[key].stat().st_size for key in (None, network.lengths[-1]))
            sizes.append({"network": name, "any_bytes": own, "fixed_bytes": fixed, "growth": round(own / fixed, 3)})
            rows += measure(name, libraries, given.processes, given.rounds)
    record = facts("measured", "bench.lengths") | {
        "rounds": given.processes * given.rounds,
        "rows": rows,
        "sizes": sizes,
    }
    if not given.json:
        write("lengths", record)
    show_record("lengths", record, given.json)


if __name__ == "__main__":
    main()
