"""An application on LiteRT before and after a partial build, in one process.

    mavcg build face.tflite --board host --partial -o libface.so
    python examples/drop_in/litert_app.py face.tflite ./libface.so

It prints how far the results are apart, and the median times of both, run in turns.
"""

import statistics
import sys
import time
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, load_delegate

ROUNDS = 20


def main(model: str, library: str) -> None:
    before = Interpreter(model, num_threads=1)
    after = Interpreter(model, num_threads=1, experimental_delegates=[load_delegate(library)])  # the new argument

    rng = np.random.default_rng(0)
    arrays = [(rng.standard_normal(d["shape"]) * 50).astype(d["dtype"]) for d in before.get_input_details()]
    for interpreter in (before, after):
        interpreter.allocate_tensors()
        for details, array in zip(interpreter.get_input_details(), arrays, strict=True):
            interpreter.set_tensor(details["index"], array)
    times: dict[str, list[float]] = {"before": [], "after": []}
    for _ in range(ROUNDS):
        for name, interpreter in (("before", before), ("after", after)):
            begin = time.perf_counter()
            interpreter.invoke()
            times[name].append(time.perf_counter() - begin)
    for a, b in zip(outputs(after), outputs(before), strict=True):
        apart = np.abs(a.astype(np.float64) - b).max()
        print(f"{a.shape}: apart {apart:.2g}, largest {np.abs(b).max():.2g}")
    print(", ".join(f"{name} {statistics.median(each) * 1e3:.2f} ms" for name, each in times.items()))


def outputs(interpreter: Any) -> list[Any]:
    return [interpreter.get_tensor(details["index"]) for details in interpreter.get_output_details()]


if __name__ == "__main__":
    main(*sys.argv[1:])
