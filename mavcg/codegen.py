"""LLVM IR text -> optimised IR or assembly, through llvmlite, in worker processes.

LLVM ends the process on errors that it calls fatal; in a worker that is one function refused with LLVM's words,
not the end of the build. A worker is `python -m mavcg.codegen`: jobs as JSON lines in, results as JSON lines out.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import IO, Any

from mavcg.errors import MavcgError


@dataclass(frozen=True)
class CodegenJob:
    """A module to be compiled.

    text: the IR. triple: LLVM's target triple. cpu: the module's own CPU; functions carry theirs as attributes.
    opt_level: 0 to 3; size_level: 0, 1 (-Os) or 2 (-Oz). optimise: whether the mid-level pipeline runs.
    emit: "ir" or "asm".
    """

    text: str
    triple: str
    cpu: str
    opt_level: int = 3
    size_level: int = 0
    optimise: bool = True
    emit: str = "asm"


@dataclass(frozen=True)
class Failure:
    """A job that LLVM refused, with the first line of what it said."""

    message: str


def compile_module(job: CodegenJob) -> str:
    """Optimise and emit one module, in this process. Raises: MavcgError with LLVM's message for invalid IR."""
    llvm = _llvm()
    try:
        module = llvm.parse_assembly(job.text)
        module.verify()
    except RuntimeError as error:
        raise MavcgError(f"LLVM: {_first_line(str(error))}") from error
    module.triple = job.triple
    machine = llvm.Target.from_triple(job.triple).create_target_machine(
        cpu=job.cpu, opt=job.opt_level, reloc="pic", codemodel="default"
    )
    if job.optimise:
        options = llvm.create_pipeline_tuning_options(speed_level=job.opt_level, size_level=job.size_level)
        options.loop_vectorization = options.slp_vectorization = job.opt_level >= 2
        options.loop_interleaving = options.loop_unrolling = job.opt_level >= 2
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
    return str(module) if job.emit == "ir" else str(machine.emit_assembly(module))


def canonical(text: str) -> str:
    """The IR as LLVM prints it: the form that passes.ir reads. Raises: MavcgError when it does not parse."""
    try:
        return str(_llvm().parse_assembly(text))
    except RuntimeError as error:
        raise MavcgError(f"LLVM: {_first_line(str(error))}") from error


def compile_all(jobs: Sequence[CodegenJob], workers: int, progress: Callable[[], None]) -> list[str | Failure]:
    """Compile every job in `workers` processes; the results in the order of the jobs.

    progress is called once per finished job, from any thread.
    """
    results: dict[int, str | Failure] = {}

    def work(indices: Sequence[int]) -> None:
        left = list(indices)
        while left:
            done = _run_worker([jobs[i] for i in left], progress)
            results.update(zip(left, done, strict=False))
            left = left[len(done) :]

    slices = [range(start, len(jobs), workers) for start in range(min(workers, len(jobs)))]
    with ThreadPoolExecutor(max(1, len(slices))) as pool:
        list(pool.map(work, slices))
    return [results[i] for i in range(len(jobs))]


def _run_worker(jobs: Sequence[CodegenJob], progress: Callable[[], None]) -> list[str | Failure]:
    """Results of the jobs up to the first that killed its worker, that one included."""
    results: list[str | Failure] = []
    with tempfile.TemporaryFile("w+") as todo, tempfile.TemporaryFile("w+", errors="replace") as words:
        for job in jobs:
            todo.write(json.dumps(asdict(job)) + "\n")
        todo.seek(0)
        command = [sys.executable, "-m", "mavcg.codegen"]
        with subprocess.Popen(command, stdin=todo, stdout=subprocess.PIPE, stderr=words, text=True) as worker:
            assert worker.stdout
            for line in worker.stdout:
                answer = json.loads(line)
                results.append(answer["result"] if "result" in answer else Failure(answer["failure"]))
                progress()
        if len(results) < len(jobs):
            words.seek(0)
            results.append(
                Failure(_fatal_line(words.read()) or f"LLVM: the compiler process ended ({worker.returncode})")
            )
            progress()
    return results


def _fatal_line(text: str) -> str:
    lines = [line for line in text.splitlines() if "LLVM ERROR" in line or "error:" in line]
    return lines[-1].strip() if lines else ""


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else "no message"


def _llvm() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm


def _serve(jobs: IO[str], answers: IO[str]) -> None:
    for line in jobs:
        try:
            answer = {"result": compile_module(CodegenJob(**json.loads(line)))}
        except MavcgError as error:
            answer = {"failure": str(error)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    _serve(sys.stdin, sys.stdout)
