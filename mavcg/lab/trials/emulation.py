"""Run lowered primitives in an emulator, for a machine that this one is not: qemu for AArch64, Bochs for AVX-512."""

import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from mavcg.choose.lowering.kernel_code import kernel_flags, kernel_module, version_symbol
from mavcg.errors import ToolError
from mavcg.files.scratch import scratch_folder
from mavcg.kernels.builder.emit import kernel_name
from mavcg.lab.trials.bare_x86 import CPU, TARGET, bochs_there, run_bare
from mavcg.lab.trials.jobs import ALIGN, BASES, GUARD_BYTES, TrialJob
from mavcg.runtime.needs import compiler_needs, llvm_needs
from mavcg.specs.kernel import KernelSpec, Machine
from mavcg.toolchain.codegen import CodegenJob, compile_module
from mavcg.toolchain.target import Target, host_target, parse_target
from mavcg.toolchain.zig import run_zig

LABEL = "run"
_ARM = parse_target("aarch64-linux-musl")


def target_of(machine: Machine) -> Target:
    """Return the target that an emulated machine's programs are compiled for."""
    return TARGET if machine.arch == "x86_64" else _ARM


def runs_here(machine: Machine) -> bool:
    """Return True if this processor runs the machine's code."""
    if machine.arch != host_target().arch:
        return False
    return machine.arch != "x86_64" or _cpuid_suffices(machine, compiler_needs("native"))


def emulator_missing(machine: Machine) -> str:
    """Return why no emulator for a machine is installed, with a remedy; "" if one is."""
    if machine.arch == "aarch64":
        return "" if qemu() else "install qemu-user-static, which runs AArch64 code"
    if not _cpuid_suffices(machine, llvm_needs(CPU, ())):
        return f"the emulator of x86 supports only the instructions of {CPU}: name an older core, or 'host'"
    return "" if bochs_there() else "install bochs and bochs-term, which run AVX-512, or name an older core"


def _cpuid_suffices(machine: Machine, cpuid_words: tuple[int, ...]) -> bool:
    """Return True if an x86 machine's code needs no other CPUID bits than these."""
    needs = llvm_needs(machine.llvm_cpu, machine.llvm_features)
    return not any(need & ~there for need, there in zip(needs, cpuid_words, strict=True))


@cache
def qemu() -> str | None:
    """Return the path of the emulator of AArch64 programs; None if there is none."""
    return shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")


_DRIVER = r"""
#include <stdio.h>
#include <stdlib.h>
typedef void kernel(void *, long, long, void *);
static char *taken(long bytes) {
    char *to = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (!to || fread(to, 1, bytes, stdin) != (size_t)bytes) exit(4);
    return to;
}
static void given(char *from, long bytes) { if (fwrite(from, 1, bytes, stdout) != (size_t)bytes) exit(5); }
"""


def emulate(jobs: Sequence[TrialJob], machine: Machine) -> None:
    """Compute all jobs, into their memory, by one program that runs once.

    Raises: MavcgError if no emulator of the machine is installed.
    """
    specs = tuple(dict.fromkeys(stage.spec for job in jobs for stage in job.lowering.stages))
    target = target_of(machine)
    given = b"".join(job.operands[base].whole.tobytes() for job in jobs for base in BASES if base in job.operands)
    with scratch_folder("mavcg-run-") as name:
        folder = Path(name)
        text = kernel_module(specs, machine, LABEL, target)
        kernels = folder / "kernels.o"
        codegen_job = CodegenJob(text, target, "compiling primitives", emit="obj", flags=kernel_flags(machine))
        compile_module(codegen_job, kernels)
        source = _driver(jobs, specs)
        if machine.arch == "x86_64":
            written = run_bare(folder, source, [kernels], given, len(given))
        else:
            written = _run_qemu(folder, source, kernels, given)
    at = 0
    for job in jobs:
        for base in (base for base in BASES if base in job.operands):
            whole = job.operands[base].whole
            whole[:] = np.frombuffer(written, np.uint8, whole.nbytes, at)
            at += whole.nbytes


def _driver(jobs: Sequence[TrialJob], specs: Sequence[KernelSpec]) -> str:
    """Return a C program that reads the memory of all jobs from stdin, computes them, and writes it to stdout."""
    lines = [_DRIVER]
    for number, spec in enumerate(specs):
        lines.append(f'extern kernel k{number} __asm__("{version_symbol(kernel_name(spec), LABEL)}");')
    scratch = max((spec.scratch_bytes for spec in specs), default=0)
    lines.append(f"int main(void) {{ char *scratch = aligned_alloc(64, {scratch + ALIGN & -ALIGN} + 64);")
    numbers = {spec: i for i, spec in enumerate(specs)}
    for job in jobs:
        bases = [base for base in BASES if base in job.operands]
        sizes = {base: job.operands[base].whole.nbytes for base in bases}
        lines.append("{")
        lines += [f"char *{base} = taken({size});" for base, size in sizes.items()]
        for call in job.calls:
            stage = job.lowering.stages[call.stage]
            operands = ", ".join(f"{operand.base} + {operand.offset + GUARD_BYTES}" for operand in stage.operands)
            lines.append(f"{{ void *args[] = {{{operands}}};")
            lines.append(f"k{numbers[stage.spec]}(args, {call.begin}, {call.end}, scratch); }}")
        lines += [f"given({base}, {size}); free({base});" for base, size in sizes.items()]
        lines.append("}")
    lines.append("return 0; }")
    return "\n".join(lines)


def _run_qemu(folder: Path, source: str, kernels: Path, input_bytes: bytes) -> bytes:
    (folder / "driver.c").write_text(source)
    program = ["-target", _ARM.zig_name, "-O1", "-static", "driver.c", kernels.name, "-o", "driver"]
    run_zig("cc", program, "linking primitives for an emulator", folder)
    emulator = qemu()
    assert emulator is not None  # emulator_missing says so before
    done = subprocess.run([emulator, str(folder / "driver")], input=input_bytes, capture_output=True)
    if done.returncode or len(done.stdout) != len(input_bytes):
        words = done.stderr.decode(errors="replace").strip()
        raise ToolError(
            f"qemu-aarch64: emulated primitives ended with status {done.returncode}: {words or 'no message'}"
        )
    return done.stdout
