"""Interleaved measurement of runtimes, each in a process of its own (bench/worker.py) that is stopped while others run.

Idle thread pools spin, so a running idle process would take a core from the one that is timed.

On a virtual machine one CPU may run at two thirds of its speed for seconds while another does not, and the scheduler
places processes at will. Therefore all workers with one thread are bound to the same CPU within a round, and to the
next CPU in the next round; workers with more threads may use all CPUs. Rounds are short and many, so that few contain
both a fast and a slow period. Ratios are of two runtimes in the same round (bench/peer_rows.py).
"""

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from bench.records import ROOT

WARM, MIN_RUNS, SECONDS = 2, 3, 0.3


@dataclass
class Worker:
    """A process with a loaded model; stopped (SIGSTOP) except during a request."""

    runtime: str
    process: subprocess.Popen[str]
    threads: int = 1
    version: str = ""

    def ask(self, line: str) -> dict[str, Any]:
        """Continue the process, send a request, and stop it after its answer.

        Raises: RuntimeError with the worker's error.
        """
        assert self.process.stdin is not None and self.process.stdout is not None
        os.kill(self.process.pid, signal.SIGCONT)
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = read_answer(self.process.stdout)
        os.kill(self.process.pid, signal.SIGSTOP)
        return answer

    def bind(self, cpus: Collection[int]) -> None:
        """Restrict the worker's present and future threads to these CPUs.

        Raises: OSError if the system refuses it, or none of the CPUs exists.
        """
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            with contextlib.suppress(ProcessLookupError):  # a thread may end meanwhile
                os.sched_setaffinity(int(task.name), cpus)

    def end(self) -> None:
        """Kill the process, in whatever state it is."""
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGCONT)
            self.process.kill()
        self.process.wait()


def read_answer(stream: IO[str]) -> dict[str, Any]:
    """Return the next line that is JSON; runtimes print other lines too.

    Raises: RuntimeError with the worker's error.
    """
    for line in stream:
        if line.startswith("{"):
            answer: dict[str, Any] = json.loads(line)
            if answer.get("ok", True):
                return answer
            raise RuntimeError(answer["error"])
    raise RuntimeError("the worker ended without an answer")


def when_loaded(worker: Worker) -> Worker:
    """Wait until a worker has said its version, and stop it. Raises: RuntimeError with its error; it has ended then."""
    assert worker.process.stdout is not None
    try:
        worker.version = str(read_answer(worker.process.stdout)["version"])
    except RuntimeError:
        worker.end()
        raise
    os.kill(worker.process.pid, signal.SIGSTOP)
    return worker


SCRIPT = ROOT / "bench" / "worker.py"


def start(
    runtime: str, model: Path, threads: int, python: str = sys.executable, profile: bool = False, script: Path = SCRIPT
) -> Worker:
    """Start a worker; it is loaded, and stopped.

    script: bench/worker.py of this checkout or of another one. Raises: RuntimeError if the runtime cannot load the
    model.
    """
    command = [python, str(script), str(model), "--threads", str(threads)]
    process = subprocess.Popen(
        [*command, "--runtime", runtime, *(["--profile"] if profile else [])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    return when_loaded(Worker(runtime, process, threads))


def bound(workers: Sequence[Worker], number: int) -> None:
    """Bind each worker with one thread to a CPU before round `number`: the CPUs of this process in rotation."""
    cpus = sorted(os.sched_getaffinity(0))
    for worker in workers:
        if worker.threads == 1:
            worker.bind({cpus[number % len(cpus)]})


def round_medians(workers: Sequence[Worker], rounds: int, clock: str = "ms") -> Mapping[str, list[float]]:
    """Return each runtime's median, in ms, of every round; every round begins with another runtime.

    clock: "ms" (wall time), or "cpu_ms" (CPU time), which is less disturbed on a busy machine for one thread.
    """
    medians: dict[str, list[float]] = {worker.runtime: [] for worker in workers}
    for number in range(rounds):
        bound(workers, number)
        first = number % len(workers)
        for worker in (*workers[first:], *workers[:first]):
            times = worker.ask(f"run {WARM} {MIN_RUNS} {SECONDS}")[clock]
            medians[worker.runtime].append(statistics.median(times))
    return medians


def process_medians(model: Path, threads: int, processes: int, rounds: int) -> list[float]:
    """Return the median of the rounds of each of several processes that run a library in turn, in ms.

    Each has its own addresses, where the system randomises them. Raises: RuntimeError with the error of a process.
    """
    workers: list[Worker] = []
    try:
        for number in range(processes):
            workers.append(start("mavcg", model, threads))
            workers[-1].runtime = f"process {number}"
        medians = round_medians(workers, rounds)
    finally:
        for worker in workers:
            worker.end()
    return [statistics.median(ms) for ms in medians.values()]
