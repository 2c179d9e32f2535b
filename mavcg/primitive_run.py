"""Runs lowered primitives: compiled in this process where this machine runs the code, else a program in an emulator.

Memory is given as bytes, an array for each base of a Place; what lies around an operand in its array is not touched.
"""

import ctypes
import random
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mavcg.codegen import CodegenJob, compile_module
from mavcg.errors import MavcgError, ToolError
from mavcg.host import HOST, host_board
from mavcg.kernel import Machine
from mavcg.kernel_code import kernel_module, version_symbol
from mavcg.kernels.emit import kernel_name
from mavcg.machines import GENERIC, machines_for
from mavcg.primitive import Lowering
from mavcg.profiles.load import cores_for
from mavcg.runtime.build import compiler_needs, x86_needs
from mavcg.target import host_target, parse_target
from mavcg.toolchain import run_zig

Bytes = NDArray[np.uint8]
BASES = ("x", "weights", "out", "bias", "residual", "workspace")
GUARD_BYTES = 256  # on either side of an operand
ALIGN = 64
LABEL = "run"
_FLAGS = ("-fno-vectorize", "-fno-slp-vectorize", "-fno-unroll-loops")  # as a library's kernels are compiled
EMULATED = parse_target("aarch64-linux-musl")
_FILLING = 0xF7  # floats of these bytes are large: arithmetic on memory that nobody wrote shows


@dataclass(frozen=True)
class Call:
    """A range of rows of one stage."""

    stage: int
    begin: int
    end: int


@dataclass(frozen=True)
class Memory:
    """One operand's bytes between guards."""

    whole: Bytes
    size: int

    @property
    def inner(self) -> Bytes:
        """The operand."""
        return self.whole[GUARD_BYTES : GUARD_BYTES + self.size]

    @property
    def address(self) -> int:
        """Of the operand; a multiple of ALIGN."""
        return int(self.whole.ctypes.data) + GUARD_BYTES

    @property
    def guards_hold(self) -> bool:
        """Whether nothing was written around it."""
        before, after = self.whole[:GUARD_BYTES], self.whole[GUARD_BYTES + self.size :]
        return bool((before == _FILLING).all() and (after == _FILLING).all())


def memory(size: int, content: NDArray[np.generic] | None = None) -> Memory:
    """Memory of so many bytes, with this content or filled with a pattern."""
    raw = np.full(size + 2 * GUARD_BYTES + ALIGN, _FILLING, np.uint8)
    start = -raw.ctypes.data % ALIGN
    found = Memory(raw[start : start + size + 2 * GUARD_BYTES], size)
    if content is not None:
        found.inner[:] = np.frombuffer(np.ascontiguousarray(content).tobytes(), np.uint8)
    return found


@dataclass(frozen=True)
class Job:
    """A lowering with its memory, base -> bytes, and the calls that compute it, in order."""

    lowering: Lowering
    operands: Mapping[str, Memory]
    calls: tuple[Call, ...]


def all_rows(lowering: Lowering) -> tuple[Call, ...]:
    """Every stage at once."""
    return tuple(Call(i, 0, stage.spec.rows) for i, stage in enumerate(lowering.stages))


def random_ranges(lowering: Lowering, seed: int, parts: int = 4) -> tuple[Call, ...]:
    """Every stage in up to `parts` ranges, cut at random, in random order."""
    pick = random.Random(f"ranges {seed}")
    calls: list[Call] = []
    for number, stage in enumerate(lowering.stages):
        rows = stage.spec.rows
        cuts = sorted({0, rows, *(pick.randint(0, rows) for _ in range(parts - 1))})
        ranges = [Call(number, begin, end) for begin, end in zip(cuts, cuts[1:], strict=False)]
        pick.shuffle(ranges)
        calls += ranges
    return tuple(calls)


def run_jobs(jobs: Sequence[Job], machine: Machine, optimised: bool = True) -> None:
    """Compute all of them, into their memory; optimised: as CompiledLowering has it, an emulated machine's always are.

    Raises: MavcgError where the machine is of another architecture and no emulator is there.
    """
    if machine.arch == host_target().arch:
        for job in jobs:
            CompiledLowering(job.lowering, machine, optimised).run(job)
    else:
        _emulate(jobs, machine)


class CompiledLowering:
    """The kernels of a lowering as functions of this process; .text is their IR.

    optimised: compiled as a library's kernels are. Else the same IR goes straight into instructions, in a third of
    the time: for checking what emitters write, every load and store of it, and not for timing.
    """

    def __init__(self, lowering: Lowering, machine: Machine, optimised: bool = True) -> None:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self.lowering = lowering
        specs = tuple(dict.fromkeys(stage.spec for stage in lowering.stages))
        self.text = kernel_module(specs, machine, LABEL, host_target())
        parsed = llvm.parse_assembly(self.text)
        parsed.verify()
        target_machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=machine.llvm_cpu, features=",".join(machine.llvm_features), opt=3 if optimised else 0, jit=True
        )
        if optimised:
            options = llvm.create_pipeline_tuning_options(speed_level=2)
            options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
            builder = llvm.create_pass_builder(target_machine, options)
            builder.getModulePassManager().run(parsed, builder)
        self._engine = llvm.create_mcjit_compiler(parsed, target_machine)
        self._engine.finalize_object()
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
        self._functions = [
            kind(self._engine.get_function_address(version_symbol(kernel_name(stage.spec), LABEL)))
            for stage in lowering.stages
        ]
        self._scratch = memory(max((stage.spec.scratch_bytes for stage in lowering.stages), default=0))

    def run(self, job: Job) -> None:
        """Compute a job of this lowering. Not by two threads at once: scratch is this object's."""
        tables = self.tables({base: held.address for base, held in job.operands.items()})
        for call in job.calls:
            self.call(call, tables)
        assert self._scratch.guards_hold, "scratch: written outside of scratch_bytes"

    def tables(self, addresses: Mapping[str, int]) -> list[ctypes.Array[ctypes.c_void_p]]:
        """The args of each stage, where the bases lie at these addresses."""
        found = []
        for stage in self.lowering.stages:
            pointers = [addresses[place.base] + place.offset for place in stage.operands]
            found.append((ctypes.c_void_p * len(pointers))(*pointers))
        return found

    def call(self, call: Call, tables: Sequence[ctypes.Array[ctypes.c_void_p]]) -> None:
        """Compute a range of rows of a stage."""
        table = ctypes.addressof(tables[call.stage])
        self._functions[call.stage](table, call.begin, call.end, self._scratch.address)


def find_machine(core: str) -> Machine:
    """What emitters are told about a core: "host" for this machine's first, "generic", or one that `mavcg cores` lists.

    Raises: MavcgError for an unknown core, and for one whose code neither this machine nor the emulator runs.
    """
    target = host_target()
    if core == HOST:
        cores = cores_for(host_board().cores[:1]) if host_board().cores else ()
        return machines_for(cores, target)[cores[0].name if cores else GENERIC]
    if core == GENERIC:
        return machines_for((), target)[GENERIC]
    (found,) = cores_for((core,))
    if found.arch != target.arch:
        if found.arch != EMULATED.arch:
            raise MavcgError(f"core '{core}': is {found.arch}, and this machine is {target.arch}; name one of those")
        _emulator()
        return machines_for((found,), EMULATED)[core]
    if found.arch == "x86_64" and any(need & ~own for need, own in zip(x86_needs(found), _own_words(), strict=True)):
        raise MavcgError(
            f"core '{core}': has instructions that this machine does not have; name an older one, or 'host'"
        )
    return machines_for((found,), target)[core]


@cache
def _own_words() -> tuple[int, ...]:
    """What this x86 machine has, as x86_needs counts it."""
    return compiler_needs("native")


def _emulator() -> str:
    found = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if found is None:
        raise MavcgError(
            "qemu-aarch64: is not there, and this machine runs no AArch64 code; install it, or name 'host'"
        )
    return found


def emulation_there() -> bool:
    """Whether AArch64 code can be run on this machine, if only emulated."""
    return bool(shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64"))


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


def _emulate(jobs: Sequence[Job], machine: Machine) -> None:
    """One program of all jobs, run once: it reads their memory from stdin and writes it to stdout."""
    specs = tuple(dict.fromkeys(stage.spec for job in jobs for stage in job.lowering.stages))
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
            places = ", ".join(f"{place.base} + {place.offset + GUARD_BYTES}" for place in stage.operands)
            lines.append(f"{{ void *args[] = {{{places}}};")
            lines.append(f"k{numbers[stage.spec]}(args, {call.begin}, {call.end}, scratch); }}")
        lines += [f"given({base}, {size}); free({base});" for base, size in sizes.items()]
        lines.append("}")
    lines.append("return 0; }")
    with tempfile.TemporaryDirectory(prefix="mavcg-run-") as name:
        folder = Path(name)
        text = kernel_module(specs, machine, LABEL, EMULATED)
        compile_module(
            CodegenJob(text, EMULATED, "compiling primitives", emit="obj", flags=_FLAGS), folder / "kernels.o"
        )
        (folder / "driver.c").write_text("\n".join(lines))
        program = ["-target", EMULATED.zig_name, "-O1", "-static", "driver.c", "kernels.o", "-o", "driver"]
        run_zig("cc", program, "linking primitives for an emulator", folder)
        given = b"".join(job.operands[base].whole.tobytes() for job in jobs for base in BASES if base in job.operands)
        done = subprocess.run([_emulator(), str(folder / "driver")], input=given, capture_output=True)
    if done.returncode or len(done.stdout) != len(given):
        words = done.stderr.decode(errors="replace").strip()
        raise ToolError(f"qemu-aarch64: emulated primitives ended with status {done.returncode}: {words or 'no word'}")
    at = 0
    for job in jobs:
        for base in (base for base in BASES if base in job.operands):
            whole = job.operands[base].whole
            whole[:] = np.frombuffer(done.stdout, np.uint8, whole.nbytes, at)
            at += whole.nbytes
