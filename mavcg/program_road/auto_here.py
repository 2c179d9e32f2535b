"""Where `mavcg auto` runs its program: this machine, or why the library cannot be run on it."""

import os
import shutil

from mavcg.program_road.auto_steps import Question, Where, board_of
from mavcg.program_road.perf_runs import Place, RunsHere, this_machine
from mavcg.program_road.program import BuildRequest
from mavcg.target import host_target


def this_place(question: Question, request: BuildRequest) -> Where:
    """This machine. request: any build of the question, for its target and cores."""
    recorder = (question.project.profile and question.project.profile.recorder) or "perf"
    runs = RunsHere(recorder)
    host, target = host_target(), request.target
    if not question.command:
        return Where(runs, (), "no command is named (profile.command), so no version was run")
    if (target.arch, target.system) != (host.arch, host.system):
        why = f"the library is for {target.zig_name}, which this machine ({host.zig_name}) does not run"
        return Where(runs, (), f"{why}; a machine that does is named by --runner")
    if recorder != "perf":
        return Where(runs, (), f"{recorder} counts instructions, which are not time, so no version was measured")
    if shutil.which("perf") is None:
        return Where(runs, ())  # what runs the program says what is missing
    allowed = os.sched_getaffinity(0)
    cpus = this_machine()
    found = [
        (core.name, tuple(c.cpu for c in cpus if c.core == core.name and c.cpu in allowed)) for core in request.cores
    ]
    board = board_of("this machine", host.zig_name, ((cpu.cpu, cpu.core) for cpu in cpus))
    return Where(runs, tuple(Place(name, numbers) for name, numbers in found if numbers), board=board)
