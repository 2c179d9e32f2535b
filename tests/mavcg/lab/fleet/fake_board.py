"""Print what the measuring program prints, as the board does that BOARD_FOLDER names.

Arguments: microseconds of each job, separated by commas; then those of a measuring program. In the board's folder the
file "behaviour" has lines of words: "times F": all jobs take F times as long; "celsius C"; "clock K": the clock after
each job in kHz; "die N": the connection is cut at the N-th job that it is given in all, and ever after; "fail MICROS":
a job of so many microseconds cannot be measured; "sleep S": each job lasts S seconds. "calls" gets a line for each run.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

here = Path(os.environ["BOARD_FOLDER"])
micros, given = [float(word) for word in sys.argv[1].split(",")], sys.argv[2:]
options = dict(zip(given[::2], given[1::2], strict=True))
groups = [value for name, value in zip(given[::2], given[1::2], strict=True) if name == "--turns"]
words = dict(line.split() for line in (here / "behaviour").read_text().splitlines())
state = {
    "khz": [2_000_000, int(words.get("clock", 2_000_000))],
    "mc": [41_000, int(1000 * float(words.get("celsius", 42)))],
}


def tell(value: object) -> None:
    print(json.dumps(value), flush=True)


def numbers(text: str) -> list[int]:
    """Of "0-3,7"."""
    ends = [part.split("-") for part in text.split(",")]
    return [n for part in ends for n in range(int(part[0]), int(part[-1]) + 1)]


def die_if_told() -> None:
    with (here / "jobs").open("a") as jobs:
        jobs.write(".")
    if "die" in words and len((here / "jobs").read_text()) >= int(words["die"]):
        os.kill(int((here / "sshd").read_text()), signal.SIGKILL)  # the server, so that nobody comes back
        os.kill(os.getppid(), signal.SIGKILL)
        sys.exit(9)


def ns_of(job: int) -> float:
    time.sleep(float(words.get("sleep", 0)))
    return 1000 * micros[job] * float(words.get("times", 1))


with (here / "calls").open("a") as calls:
    calls.write(" ".join(given) + "\n")
machine = {
    "jobs": len(micros),
    "cpu": int(options.get("--cpu", "0").split(",")[0]),
    "midr": 0,
    "midr_from": "",
    "governor": "",
    "khz": 0,
    "lost": 0,
}
tell({"machine": machine})
for job in numbers(options["--jobs"]) if "--jobs" in options else ():
    die_if_told()
    if float(words.get("fail", -1)) == micros[job]:
        tell({"job": job, "fault": "it wrote outside"})
        continue
    times = {"ns": [ns_of(job)] * 5, "lost": [0] * 5, "runs": 5, "cpu_ns": 1, "wall_ns": 1}
    tell({"job": job, "sum": f"{micros[job]:g}", "cpu": machine["cpu"], **state, "warm": times, "cold": times})
for group in map(numbers, groups):
    die_if_told()
    rounds = int(options["--rounds"])
    timed = [
        {"job": n, "sum": f"{micros[n]:g}", "times": {"ns": [ns_of(n)] * rounds, "lost": [0] * rounds, "runs": 1}}
        for n in group
    ]
    tell({"turns": timed, **state})
tell({"end": machine})
