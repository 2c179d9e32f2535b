"""Every figure of the README: measure, write bench/results/*.json, print the tables: `python -m bench.all`."""

import subprocess
import sys

from bench import tables
from bench.record import RESULTS, ROOT

# Timings first, while the machine is cool; counting disturbs nobody.
STEPS = (
    ("-m", "bench.versions"),
    ("bench/dispatch.py", "--json", str(RESULTS / "dispatch.json")),
    ("-m", "bench.build_time"),
    ("-m", "bench.growth"),
    ("-m", "bench.machine_passes"),
)


def main() -> None:
    """Each step is a process of its own: none inherits another's CPU or libraries. Stops at the first that fails."""
    for step in STEPS:
        print(f"bench: {' '.join(step)}", file=sys.stderr, flush=True)
        done = subprocess.run([sys.executable, *step], cwd=ROOT, stdout=subprocess.DEVNULL)
        if done.returncode:
            sys.exit(f"bench: {' '.join(step)} ended with status {done.returncode}")
    tables.main()


if __name__ == "__main__":
    main()
