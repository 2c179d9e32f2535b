"""Serve one runtime with one model, as lines of input say: `python bench/worker.py MODEL --threads N [--runtime NAME]`.

It says {"ok": true, "version": .., "load_s": ..} when it is ready, and then answers each line with one line of JSON:
`run WARM MIN_RUNS SECONDS` with {"ms": [..], "cpu_ms": [..], "switches": n} (ms: of the runs that kept their core; n:
of those that did not; cpu_ms: time of all its threads, in all runs), `out PATH` with {"ok": true} after writing the
outputs to an .npz file, `layers RUNS` with {"layers": [..]}, the least time of each layer where the runtime was
started with --profile and says it, and ends at `quit`. What it cannot do it answers with {"ok": false, "error": ..}.
"""

import argparse
import json
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # so that it runs as a script, in an environment that knows nothing of mavcg
    sys.path.insert(0, str(ROOT))

from bench.runners import RUNTIMES, Runner  # noqa: E402

Array = NDArray[Any]


def seeded_inputs(runner: Runner) -> list[Array]:
    """Return standard normal numbers from seed 0, in order; for integers scaled to their range.

    The same for every runtime. Integers of 64 bits are numbers of words below 30,000, those of 32 bits are 0 and 1:
    masks and segments.
    """
    rng = np.random.default_rng(0)
    arrays = []
    for shape, dtype in runner.inputs:
        turned = runner.channels_last and len(shape) == 4
        values = rng.standard_normal((shape[0], shape[3], *shape[1:3]) if turned else shape)
        if turned:
            values = np.ascontiguousarray(values.transpose(0, 2, 3, 1))
        if dtype == np.int64:
            values = np.floor(np.abs(values) * 9000) % 30000
        elif dtype == np.int32:
            values = (values > -0.5).astype(np.float64)
        elif dtype.kind in "iu":
            info = np.iinfo(dtype)
            middle, low, high = (128, 0, 255) if info.min == 0 else (0, -128, 127)
            values = np.clip(np.round(values * 40 + middle), low, high)
        arrays.append(values.astype(np.float32).astype(dtype))
    return arrays


def timed(runner: Runner, arrays: Sequence[Array], warm: int, min_runs: int, seconds: float) -> dict[str, Any]:
    """Return the milliseconds of the runs that kept their core, and the CPU time of all runs."""
    for _ in range(warm):
        runner.run(arrays)
    run_ms: list[float] = []
    of_cpu: list[float] = []
    switches, end = 0, time.perf_counter() + seconds
    while len(run_ms) < min_runs or time.perf_counter() < end:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
        start, start_cpu = time.perf_counter_ns(), time.process_time_ns()
        runner.run(arrays)
        took, of_this = (time.perf_counter_ns() - start) / 1e6, (time.process_time_ns() - start_cpu) / 1e6
        lost = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw > before
        switches += lost
        of_cpu.append(of_this)
        # On a machine that is never quiet some runs count all the same: a measurement has to end.
        if not lost or switches > 4 * min_runs:
            run_ms.append(took)
    return {"ms": run_ms, "cpu_ms": of_cpu, "switches": switches}


def serve(runner: Runner, line: str) -> dict[str, Any]:
    """Return the answer to one line."""
    words = line.split()
    arrays = seeded_inputs(runner)
    if words[0] == "run" and len(words) == 4:
        return timed(runner, arrays, int(words[1]), int(words[2]), float(words[3]))
    if words[0] == "out" and len(words) == 2:
        named: dict[str, Any] = dict(zip(runner.outputs, runner.run(arrays), strict=True))
        np.savez(words[1], **named)
        return {"ok": True}
    if words[0] == "layers" and len(words) == 2:
        if runner.layers is None:
            raise ValueError("this runtime does not say what its layers take, or was not started with --profile")
        return {"layers": runner.layers(arrays, int(words[1]))}
    raise ValueError(f"'{line}': is neither run WARM MIN_RUNS SECONDS, out PATH, layers RUNS nor quit")


def main() -> None:
    """Load the model, then answer lines until `quit` or the end of the input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runtime", choices=RUNTIMES, default="mavcg")
    parser.add_argument("--profile", action="store_true", help="be ready for `layers`; it may run slower")
    args = parser.parse_args()

    def say(answer: dict[str, Any]) -> None:
        print(json.dumps(answer), flush=True)

    start = time.perf_counter()
    try:
        runner = RUNTIMES[args.runtime](args.model, args.threads, args.profile)
    except Exception as error:  # whatever a runtime raises: the one who asked must hear it
        say({"ok": False, "error": f"{type(error).__name__}: {error}"})
        sys.exit(2)
    say({"ok": True, "version": runner.version, "load_s": round(time.perf_counter() - start, 3)})
    for line in map(str.strip, sys.stdin):
        if line == "quit":
            break
        if line:
            try:
                say(serve(runner, line))
            except Exception as error:
                say({"ok": False, "error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main()
