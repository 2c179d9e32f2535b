"""Run lowered primitives: in this process if this processor runs the code, else in an emulator."""

from collections.abc import Mapping, Sequence

from mavcg.choose.lowering.kernel_code import kernel_module, version_symbol
from mavcg.errors import MavcgError
from mavcg.hardware.board import HOST
from mavcg.hardware.core import GENERIC
from mavcg.hosts.foreign_library import sgemm_address
from mavcg.hosts.host import host_board
from mavcg.kernels.builder.emit import kernel_name
from mavcg.kernels.primitives.foreign_gemm import foreign_libraries
from mavcg.lab.trials.emulation import LABEL, emulate, emulator_missing, runs_here
from mavcg.lab.trials.jobs import TrialJob, memory
from mavcg.profiles.load import cores_for
from mavcg.runtime.binding import runnable_machine
from mavcg.runtime.kernel_call import KernelCall
from mavcg.runtime.machines import machines_for
from mavcg.specs.kernel import Machine
from mavcg.specs.primitive import Lowering
from mavcg.toolchain.target import host_target


def run_jobs(jobs: Sequence[TrialJob], machine: Machine, optimised: bool = True) -> None:
    """Compute all jobs, into their memory. optimised: as in CompiledLowering; always True for an emulated machine.

    Raises: MavcgError if this processor does not run the machine's code and no emulator is installed.
    """
    if runs_here(machine):
        for job in jobs:
            CompiledLowering(job.lowering, machine, optimised).run(job)
    elif missing := emulator_missing(machine):
        raise MavcgError(f"{machine.name}: this processor does not run its code; {missing}")
    else:
        emulate(jobs, machine)


class CompiledLowering:
    """The kernels of a lowering as functions of this process. text: their IR.

    optimised: True to compile as a library's kernels are compiled. False compiles the same IR without optimisation in a
    third of the time, to check every load and store that emitters write; it is not for timing.
    """

    def __init__(self, lowering: Lowering, machine: Machine, optimised: bool = True) -> None:
        import llvmlite.binding as llvm

        from mavcg.toolchain.in_memory import compile_in_memory

        self.lowering, machine = lowering, runnable_machine(machine)
        specs = tuple(dict.fromkeys(stage.spec for stage in lowering.stages))
        self.text = kernel_module(specs, machine, LABEL, host_target())
        for library in foreign_libraries(specs):
            llvm.add_symbol(library.call_symbol, sgemm_address(library))
        level, passes = (3, 2) if optimised else (0, 0)
        self._engine = compile_in_memory(
            self.text, machine.llvm_cpu, machine.llvm_features, level, passes, vectorise=False
        )
        self._kernels = [
            self._engine.get_function_address(version_symbol(kernel_name(stage.spec), LABEL))
            for stage in lowering.stages
        ]
        self._scratch = memory(max((stage.spec.scratch_bytes for stage in lowering.stages), default=0))

    def run(self, job: TrialJob) -> None:
        """Compute a job of this lowering. Two threads cannot do so at once, because they would share scratch memory."""
        stages = self.stages({base: operand.address for base, operand in job.operands.items()})
        for call in job.calls:
            stages[call.stage](call.begin, call.end)
        assert self._scratch.guards_hold, "scratch: written outside of scratch_bytes"

    def stages(self, addresses: Mapping[str, int]) -> list[KernelCall]:
        """Return the stages as functions to be called with a range of rows. addresses: address of each base."""
        return [
            KernelCall(kernel, [addresses[p.base] + p.offset for p in stage.operands], self._scratch.address)
            for kernel, stage in zip(self._kernels, self.lowering.stages, strict=True)
        ]


def find_machine(core: str) -> Machine:
    """Return the emitters' description of a core: "host" for the first of this machine, "generic", or a core's name.

    Raises: MavcgError for an unknown core, and for one whose code neither this processor nor an emulator runs.
    """
    target = host_target()
    if core == HOST:
        cores = cores_for(host_board().cores[:1]) if host_board().cores else ()
        return machines_for(cores, target)[cores[0].name if cores else GENERIC]
    if core == GENERIC:
        return machines_for((), target)[GENERIC]
    (named_core,) = cores_for((core,))
    machine = machines_for((named_core,), target)[core]
    if not runs_here(machine) and (missing := emulator_missing(machine)):
        raise MavcgError(f"core '{core}': this processor does not run its code; {missing}")
    return machine
