"""One runtime with one model, told by lines what to do: `python bench/worker.py MODEL --threads N [--runtime NAME]`.

It says {"ok": true, "version": .., "load_s": ..} when it is ready, and then answers each line with one line of JSON:
`run WARM MIN_RUNS SECONDS` with {"ms": [..], "switches": n} (n: runs from which the core was taken away; they are not
among ms), `out PATH` with {"ok": true} after writing the outputs to an .npz file, and ends at `quit`. What it cannot
do it answers with {"ok": false, "error": ..}.
"""

import argparse
import hashlib
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

Array = NDArray[Any]


@dataclass(frozen=True)
class Runner:
    """A loaded model. inputs: (shape, dtype) of each; run: from arrays to arrays, in the order of `outputs`."""

    version: str
    inputs: Sequence[tuple[tuple[int, ...], np.dtype[Any]]]
    outputs: Sequence[str]
    run: Callable[[Sequence[Array]], Sequence[Array]]


def mavcg_runner(model: Path, threads: int) -> Runner:
    """Our library, built for this machine and kept in the cache."""
    import mavcg

    loaded = mavcg.load(built_library(model), threads=threads)
    inputs = [(tuple(t.shape), np.dtype(t.dtype)) for t in loaded.inputs]
    return Runner(mavcg.__version__, inputs, [t.name for t in loaded.outputs], lambda arrays: loaded.run(*arrays))


def built_library(model: Path) -> Path:
    """The model's library for this machine: built once for this state of mavcg and of the model."""
    from mavcg.model import build_model
    from mavcg.model_request import make_model_request
    from mavcg.runtime.binding import cache_folder

    digest = hashlib.sha256(model.read_bytes())
    for part in ("mavcg", "kernels", "passes", "runtime", "profiles"):
        for path in sorted((ROOT / part).rglob("*")):
            if path.suffix in (".py", ".c", ".h", ".toml") and not path.is_symlink():
                digest.update(path.read_bytes())
    folder = cache_folder() / "bench" / digest.hexdigest()[:24]
    library = folder / "libmodel.so"
    if not library.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            made = Path(scratch) / "model"
            made.mkdir()
            request, _ = make_model_request(model, str(made / "libmodel.so"), "host", (), None)
            build_model(request)
            if not folder.exists():
                os.rename(made, folder)
    return library


def onnxruntime_runner(model: Path, threads: int) -> Runner:
    """onnxruntime, its CPU provider, all optimisations."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    kinds = {"tensor(float)": "f4", "tensor(uint8)": "u1", "tensor(int8)": "i1", "tensor(int64)": "i8"}
    own = [i for i in session.get_inputs()]
    inputs = [(tuple(d if isinstance(d, int) else 1 for d in i.shape), np.dtype(kinds[i.type])) for i in own]
    names = [o.name for o in session.get_outputs()]

    def run(arrays: Sequence[Array]) -> Sequence[Array]:
        found: Sequence[Array] = session.run(names, {i.name: a for i, a in zip(own, arrays, strict=True)})
        return found

    return Runner(ort.__version__, inputs, names, run)


def litert_runner(model: Path, threads: int) -> Runner:
    """LiteRT with XNNPACK, which is its default."""
    from importlib.metadata import version

    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(model), num_threads=threads)
    interpreter.allocate_tensors()
    own, outputs = interpreter.get_input_details(), interpreter.get_output_details()

    def run(arrays: Sequence[Array]) -> Sequence[Array]:
        for tensor, array in zip(own, arrays, strict=True):
            interpreter.set_tensor(tensor["index"], array)
        interpreter.invoke()
        return [interpreter.get_tensor(tensor["index"]) for tensor in outputs]

    inputs = [(tuple(int(d) for d in t["shape"]), np.dtype(t["dtype"])) for t in own]
    return Runner(version("ai-edge-litert"), inputs, [t["name"] for t in outputs], run)


RUNTIMES = {"mavcg": mavcg_runner, "onnxruntime": onnxruntime_runner, "litert": litert_runner}


def seeded_inputs(runner: Runner) -> list[Array]:
    """Standard normal numbers from seed 0, in order; for integers scaled to their range, the same for every runtime."""
    rng = np.random.default_rng(0)
    found = []
    for shape, dtype in runner.inputs:
        values = rng.standard_normal(shape)
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            middle, low, high = (128, 0, 255) if info.min == 0 else (0, -128, 127)
            values = np.clip(np.round(values * 40 + middle), low, high)
        found.append(values.astype(np.float32).astype(dtype))
    return found


def timed(runner: Runner, arrays: Sequence[Array], warm: int, min_runs: int, seconds: float) -> dict[str, Any]:
    """Milliseconds of the runs that kept their core."""
    for _ in range(warm):
        runner.run(arrays)
    found: list[float] = []
    switches, end = 0, time.perf_counter() + seconds
    while len(found) < min_runs or time.perf_counter() < end:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
        start = time.perf_counter_ns()
        runner.run(arrays)
        took = (time.perf_counter_ns() - start) / 1e6
        lost = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw > before
        switches += lost
        # On a machine that is never quiet some runs count all the same: a measurement has to end.
        if not lost or switches > 4 * min_runs:
            found.append(took)
    return {"ms": found, "switches": switches}


def serve(runner: Runner, line: str) -> dict[str, Any]:
    """The answer to one line."""
    words = line.split()
    arrays = seeded_inputs(runner)
    if words[0] == "run" and len(words) == 4:
        return timed(runner, arrays, int(words[1]), int(words[2]), float(words[3]))
    if words[0] == "out" and len(words) == 2:
        named: dict[str, Any] = dict(zip(runner.outputs, runner.run(arrays), strict=True))
        np.savez(words[1], **named)
        return {"ok": True}
    raise ValueError(f"'{line}': is neither run WARM MIN_RUNS SECONDS, out PATH nor quit")


def main() -> None:
    """Load, then serve lines until `quit` or the end of the input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runtime", choices=RUNTIMES, default="mavcg")
    args = parser.parse_args()

    def say(answer: dict[str, Any]) -> None:
        print(json.dumps(answer), flush=True)

    start = time.perf_counter()
    try:
        runner = RUNTIMES[args.runtime](args.model, args.threads)
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
