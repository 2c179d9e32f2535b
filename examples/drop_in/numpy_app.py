"""A NumPy application before and after: the same program, with a BLAS of mavcg's preloaded.

    mavcg blas build --board host -o libmavcg_blas.so
    python examples/drop_in/numpy_app.py ./libmavcg_blas.so

No line of `classify` changes: LD_PRELOAD in the environment of the second process is all. The two processes compute in
turns. It prints how far the results are apart, and the median times.
"""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

ROUNDS = 20


def classify(images: Any, first: Any, second: Any) -> Any:
    """Class scores of a perceptron with one hidden layer: the application."""
    hidden = np.maximum(images @ first, 0)
    return hidden @ second


def worker(result: str) -> None:
    """Save the scores; then compute them once for each line of stdin, and print the seconds that it took."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape, dtype=np.float32) for shape in ((256, 784), (784, 512), (512, 10))]
    np.save(result, classify(*arrays))
    print("ready", flush=True)
    for _ in sys.stdin:
        begin = time.perf_counter()
        classify(*arrays)
        print(time.perf_counter() - begin, flush=True)


def main(library: str) -> None:
    preload = {"before": {}, "after": {"LD_PRELOAD": str(Path(library).resolve(strict=True))}}
    processes = {name: start(f"{name}.npy", more) for name, more in preload.items()}
    a, b = np.load("after.npy"), np.load("before.npy")
    print(f"{a.shape}: apart {np.abs(a - b).max():.2g}, largest {np.abs(b).max():.2g}")
    times: dict[str, list[float]] = {name: [] for name in processes}
    for _ in range(ROUNDS):
        for name, process in processes.items():
            process.stdin.write("\n")
            process.stdin.flush()
            times[name].append(float(process.stdout.readline()))
    for process in processes.values():
        process.stdin.close()
        process.wait()
    print(", ".join(f"{name} {statistics.median(each) * 1e3:.2f} ms" for name, each in times.items()))


def start(result: str, more: dict[str, str]) -> Any:
    command = [sys.executable, __file__, "--worker", result]
    environment = {"OMP_NUM_THREADS": "1", **os.environ, **more}
    process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if not process.stdout or process.stdout.readline() != "ready\n":
        sys.exit(f"{' '.join(command)}: failed")
    return process


if __name__ == "__main__":
    worker(sys.argv[2]) if sys.argv[1] == "--worker" else main(sys.argv[1])
