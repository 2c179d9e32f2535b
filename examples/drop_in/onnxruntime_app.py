"""An application on ONNX Runtime before and after a partial build, in one process.

    mavcg build detector.onnx --board host --partial -o libdetector.so --also detector.mavcg.onnx
    python examples/drop_in/onnxruntime_app.py detector.onnx detector.mavcg.onnx ./libdetector.so

It prints how far the results are apart, and the median times of both, run in turns.
"""

import statistics
import sys
import time
from typing import Any

import numpy as np
import onnxruntime as ort

ROUNDS = 20
DTYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}


def main(model: str, also: str, library: str) -> None:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    before = ort.InferenceSession(model, options)

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.register_custom_ops_library(library)  # the first new line
    after = ort.InferenceSession(also, options)  # the second: another file

    rng = np.random.default_rng(0)
    arrays = {i.name: rng.standard_normal(i.shape).astype(DTYPES[i.type]) for i in after.get_inputs()}
    for a, b in zip(after.run(None, arrays), before.run(None, arrays), strict=True):
        print(f"{a.shape}: apart {np.abs(a - b).max():.2g}, largest {np.abs(b).max():.2g}")
    times: dict[str, list[float]] = {"before": [], "after": []}
    for _ in range(ROUNDS):
        for name, session in (("before", before), ("after", after)):
            times[name].append(seconds(session, arrays))
    print(", ".join(f"{name} {statistics.median(each) * 1e3:.2f} ms" for name, each in times.items()))


def seconds(session: Any, arrays: dict[str, Any]) -> float:
    begin = time.perf_counter()
    session.run(None, arrays)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main(*sys.argv[1:])
