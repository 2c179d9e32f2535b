"""Networks built by each strategy of selection, simulated on Arm cores: `python -m bench.simulated_strategies`.

A network is built for a board with the engine's own algorithms (`--strategy engine`), and as `mavcg build` does it by
default, with primitives and layouts selected by modelled costs (`pbqp`). Both libraries are simulated, one run on one
core of each kind, in warm caches; long layers are sampled. A ratio below 1 says that the selection pays. Nothing is
measured.
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.models import model_path
from bench.record import facts, write
from mavcg.choose.algorithms.strategies import ENGINE, PBQP
from mavcg.lab.simulate.model_run import ModelRunOptions, simulate_model
from mavcg.lab.simulate.sampling import UNITS, SamplePlan
from mavcg.model.model import build_model
from mavcg.model.request import ModelOptions, SelectionOptions, make_model_request
from mavcg.profiles.load import load_board, load_core
from mavcg.profiles.timing import load_timing

NAME, BOARDS = "simulated_strategies", ("exynos9820",)
NETWORKS = ("squeezenet-random", "face_landmark", "alexnet-random")


def built(network: str, board: str, strategy: str, folder: Path, jobs: int) -> tuple[Path, int]:
    """Build a network by a strategy; return the library and its number of primitives outside of the engine's own."""
    library = folder / f"lib{strategy}.so"
    request, _ = make_model_request(
        model_path(network), str(library), ModelOptions(board=board, jobs=jobs), SelectionOptions(strategy=strategy)
    )
    note = build_model(request).note
    return library, sum(count for op, count in note["operators"].items() if op.startswith("primitive_"))


def simulated_ms(library: Path, board: str, name: str) -> float:
    """Return the simulated ms of a run on one core, in warm caches."""
    core = load_core(name)
    run = simulate_model(
        library, core, load_timing(core), load_board(board), ModelRunOptions(plan=SamplePlan(units=UNITS))
    )
    return run.counts.cycles / run.figures.ghz / 1e6


def row_of(network: str, board: str, core: str, primitives: int, engine_ms: float, pbqp_ms: float) -> dict[str, Any]:
    """Return a row of the record. primitives: other than the engine's own, as selected. Times in ms."""
    return {
        "network": network,
        "board": board,
        "core": core,
        "primitives": primitives,
        "engine_ms": round(engine_ms, 3),
        "pbqp_ms": round(pbqp_ms, 3),
        "ratio": round(pbqp_ms / engine_ms, 4),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, simulate, print the rows, and write bench/results/simulated_strategies.json."""
    parser = argparse.ArgumentParser(prog=f"python -m bench.{NAME}", description=__doc__)
    parser.add_argument("networks", nargs="*", default=list(NETWORKS), metavar="NETWORK", help="of bench/models.py")
    parser.add_argument("--jobs", type=int, default=1, help="kernels compiled at a time (%(default)s)")
    options = parser.parse_args(arguments)
    rows: list[Mapping[str, Any]] = []
    for board in BOARDS:
        for network in options.networks:
            with tempfile.TemporaryDirectory() as folder:
                engine, _ = built(network, board, ENGINE, Path(folder), options.jobs)
                pbqp, primitives = built(network, board, PBQP, Path(folder), options.jobs)
                for core in load_board(board).cores:
                    times = (simulated_ms(library, board, core) for library in (engine, pbqp))
                    rows.append(row_of(network, board, core, primitives, *times))
                    print(rows[-1], file=sys.stderr, flush=True)
    record = facts("modelled", f"bench.{NAME}") | {"rows": rows}
    print(f"written: {write(NAME, record)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
