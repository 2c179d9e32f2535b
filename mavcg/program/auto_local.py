"""The machine for `mavcg auto` without --runner: this machine."""

import os
import shutil

from mavcg.program.auto_steps import AutoMachine, AutoRequest, detected_board
from mavcg.program.build_values import BuildRequest
from mavcg.program.perf_runs import CpuGroup, RunsHere, this_machine
from mavcg.toolchain.target import host_target


def local_machine(auto_request: AutoRequest, request: BuildRequest) -> AutoMachine:
    """Return this machine, with the reason if the library cannot run on it.

    Args:
        auto_request: the request of `mavcg auto`.
        request: a build request made from it; its target and cores are used.
    """
    recorder = (auto_request.project.profile and auto_request.project.profile.recorder) or "perf"
    runs = RunsHere(recorder)
    host, target = host_target(), request.target
    if not auto_request.command:
        return AutoMachine(runs, (), "no command is named (profile.command), so no version was run")
    if (target.arch, target.system) != (host.arch, host.system):
        why = f"the library is for {target.zig_name}, which this machine ({host.zig_name}) does not run"
        return AutoMachine(runs, (), f"{why}; a machine that does is named by --runner")
    if recorder != "perf":
        return AutoMachine(runs, (), f"{recorder} counts instructions, which are not time, so no version was measured")
    if shutil.which("perf") is None:
        return AutoMachine(runs, ())  # RunsHere.check reports the missing perf
    allowed = os.sched_getaffinity(0)
    cpus = this_machine()
    cpus_by_core = [
        (core.name, tuple(c.cpu for c in cpus if c.core == core.name and c.cpu in allowed)) for core in request.cores
    ]
    board = detected_board("this machine", host.zig_name, ((cpu.cpu, cpu.core) for cpu in cpus))
    return AutoMachine(runs, tuple(CpuGroup(name, numbers) for name, numbers in cpus_by_core if numbers), board=board)
