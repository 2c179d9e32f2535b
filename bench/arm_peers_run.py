"""Run another runtime once, in the emulated Python: `python -I arm_peers_run.py SITE RUNTIME DTYPE MODEL OUT`.

SITE: the folder of the runtimes' packages. DTYPE: f32 or f16. OUT: the outputs, as .npz. Two runs warm; the third lies
between two calls of getppid, which no runtime makes, and which mark it for the simulator.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), *sys.argv[1:2]]

import numpy as np  # noqa: E402

from bench.runners import HALF_RUNTIMES, RUNTIMES  # noqa: E402
from bench.worker import seeded_inputs  # noqa: E402

WARM = 2


def main() -> None:
    runtime, dtype, model, output = sys.argv[2:]
    if dtype == "f16":
        runner = HALF_RUNTIMES[runtime](Path(model), 1, False, True)
    else:
        runner = RUNTIMES[runtime](Path(model), 1, False)
    arrays = seeded_inputs(runner)
    for _ in range(WARM):
        runner.run(arrays)
    os.getppid()
    results = runner.run(arrays)
    os.getppid()
    np.savez(output, *[np.asarray(result) for result in results])


if __name__ == "__main__":
    main()
