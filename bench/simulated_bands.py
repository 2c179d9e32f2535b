"""Time that bands of rows save on Arm cores, predicted and simulated: `python -m bench.simulated_bands`.

MobileNet v2 at 224 pixels is built for a board twice: layer by layer, and by bands of rows wherever they are predicted
to be faster (`--depth-first on`). Both are simulated as a whole, one run on one core, in warm caches; sampling is not
exact enough for differences of a hundredth. The predicted saving is the sum over the ranges of layers that go by bands.
Its ratio to the simulated saving is the cost safety factor that `--depth-first auto` takes (`bands` in [safety] of
profiles/fits). Nothing is measured.
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.models import model_path
from bench.record import facts, write
from mavcg.choose.bands.banded_range import OFF, ON
from mavcg.lab.simulate.model_run import simulate_model
from mavcg.model.model import build_model
from mavcg.model.request import ModelOptions, make_model_request
from mavcg.profiles.load import load_board, load_core
from mavcg.profiles.timing import load_timing

NAME, BOARD, NETWORK = "simulated_bands", "exynos9820", "mobilenet_v2"
CORES = ("cortex-a55", "cortex-a75")


def built(mode: str, folder: Path, jobs: int) -> tuple[Path, Sequence[Mapping[str, Any]]]:
    """Build the network in a mode of `--depth-first`; return the library and its ranges by bands, as its note has
    them."""
    library = folder / f"lib{mode}.so"
    request, _ = make_model_request(model_path(NETWORK), str(library), ModelOptions(board=BOARD, jobs=jobs))
    result = build_model(replace(request, depth_first=mode))
    return library, result.note.get("depth_first", ())


def simulated_ms(library: Path, name: str) -> float:
    """Return the simulated ms of a run on one core, in warm caches."""
    core = load_core(name)
    run = simulate_model(library, core, load_timing(core), load_board(BOARD))
    return run.counts.cycles / run.figures.ghz / 1e6


def row_of(core: str, ranges: Sequence[Mapping[str, Any]], layers_ms: float, bands_ms: float) -> dict[str, Any]:
    """Return a core's savings, in ms. layers_ms, bands_ms: simulated, of the whole network."""
    times = [each["modelled_ms"][core] for each in ranges]
    predicted = sum(time["layer_by_layer"] - time["bands"] for time in times)
    saved = layers_ms - bands_ms
    return {
        "core": core,
        "ranges": len(ranges),
        "predicted_range_ms": round(sum(time["layer_by_layer"] for time in times), 4),
        "predicted_saved_ms": round(predicted, 4),
        "layers_ms": round(layers_ms, 4),
        "bands_ms": round(bands_ms, 4),
        "saved_ms": round(saved, 4),
        "time": round(bands_ms / layers_ms, 4),
        "predicted_over_simulated": round(predicted / saved, 2) if saved > 0 else None,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, simulate, print the savings, and write bench/results/simulated_bands.json."""
    parser = argparse.ArgumentParser(prog=f"python -m bench.{NAME}", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1, help="kernels compiled at a time (%(default)s)")
    options = parser.parse_args(arguments)
    rows: list[Mapping[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        layers, _ = built(OFF, Path(folder), options.jobs)
        bands, ranges = built(ON, Path(folder), options.jobs)
        for core in CORES:
            rows.append(row_of(core, ranges, simulated_ms(layers, core), simulated_ms(bands, core)))
            print(rows[-1], file=sys.stderr, flush=True)
    record = facts("modelled", f"bench.{NAME}") | {"board": BOARD, "network": NETWORK, "rows": rows}
    print(f"written: {write(NAME, record)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
