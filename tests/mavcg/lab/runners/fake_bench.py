"""Prints what the program that measures prints, at once: job n takes (n + 1) us warm, twice that cold.

In turns it takes (n + 1) us in each round. The first arguments are a folder and how many jobs there are. In the
folder's "faults" are lines of words: "kill N": killed at job N; "stop N once": asleep at job N, the first time; "cut N
once": the same, for a connection to be cut meanwhile: a file "at" says that it stands there; "fault N WORDS"; "end N
WORDS": as where memory ran out; "cpu N": it is on that CPU; "midr N"; "jobs N"; "khz N": at the end; "refuse WORDS".
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

here, jobs, given = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
COOL = {"khz": [2000000, 1990000], "mc": [41500, 42000]}  # before and after each job
options = dict(zip(given[::2], given[1::2], strict=True))
groups = [value for name, value in zip(given[::2], given[1::2], strict=True) if name == "--turns"]
with (here / "calls").open("a") as calls:
    calls.write(" ".join(given) + "\n")
faults = [line.split(" ", 2) for line in (here / "faults").read_text().splitlines()]


def said(name: str, otherwise: int) -> int:
    return next((int(words[1]) for words in faults if words[0] == name), otherwise)


def tell(value: object) -> None:
    print(json.dumps(value), flush=True)


def times(ns: float) -> dict[str, object]:
    return {
        "ns": [ns, 2 * ns, 99 * ns, 1.5 * ns, 3 * ns],
        "lost": [0, 0, 1, 0, 0],
        "runs": 5,
        "cpu_ns": 1,
        "wall_ns": 1,
    }


def once(kind: str, job: int) -> bool:
    """Whether this is to be done now: always, or the first time."""
    for words in faults:
        if words[:2] == [kind, str(job)]:
            mark = here / f"{kind}-{job}"
            if words[2:] != ["once"] or not mark.exists():
                mark.touch()
                return True
    return False


for words in faults:
    if words[0] == "refuse":
        tell({"fault": " ".join(words[1:])})
        sys.exit(3)
machine = {
    "jobs": said("jobs", jobs),
    "cpu": said("cpu", int(options.get("--cpu", 0))),
    "midr": said("midr", 0),
    "midr_from": "",
    "governor": "",
    "khz": 2000000,
    "lost": 0,
}
tell({"machine": machine})


def numbers(text: str) -> list[int]:
    """Of "0-3,7"."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def alone() -> None:
    """Each job by itself."""
    for job in numbers(options["--jobs"]):
        if once("kill", job):
            os.kill(os.getpid(), signal.SIGKILL)
        if once("stop", job) or once("cut", job):
            (here / "at").write_text(str(job))
            time.sleep(20)
        fault = [words[2] for words in faults if words[0] in ("fault", "end") and words[1] == str(job)]
        if fault:
            tell({"job": job, "fault": fault[0]})
            if ["end", str(job)] in [words[:2] for words in faults]:
                sys.exit(4)
            continue
        result = {"job": job, "sum": f"{job:016x}", "cpu": machine["cpu"], **COOL, "warm": times(1000.0 * (job + 1))}
        tell(result | ({"cold": times(2000.0 * (job + 1))} if options["--cold"] != "0" else {}))


def in_turns(group: list[int]) -> None:
    """Jobs of a group: always as long as by themselves."""
    for job in group:
        if once("kill", job):
            os.kill(os.getpid(), signal.SIGKILL)
        if once("cut", job):
            (here / "at").write_text(str(job))
            time.sleep(20)
    rounds = int(options["--rounds"])
    said = []
    for job in group:
        times = {"ns": [1000.0 * (job + 1)] * rounds, "lost": [0] * rounds, "runs": rounds}
        said.append({"job": job, "sum": f"{job:016x}", "times": times})
    tell({"turns": said, **COOL})


if "--jobs" in options:
    alone()
for each in groups:
    in_turns(numbers(each))
tell({"end": machine | {"khz": said("khz", 2000000)}})
