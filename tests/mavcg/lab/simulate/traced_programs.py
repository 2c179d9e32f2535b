"""Small AArch64 programs for the simulation of whole programs, and what they should count."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mavcg.errors import MavcgError
from mavcg.lab.simulate.process import ProcessOptions, ProcessSimulation, simulate_process
from mavcg.lab.simulate.process_emulator import traced_qemu
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_zig

# Functions without libc. axpy: y[i] += a * x[i], x2 floats; strided: a sum over x1 lines, with prefetches; ahead: with
# prefetches by registers of their own.
FUNCTIONS = """
	.text
	.macro function name
	.globl \\name
	.type \\name, %function
	.p2align 6
\\name:
	.endm
function axpy
	dup v16.4s, v0.s[0]
1:	ldr q1, [x0], #16
	ldr q2, [x1]
	fmla v2.4s, v1.4s, v16.4s
	str q2, [x1], #16
	subs x2, x2, #4
	b.gt 1b
	ret
function ahead
	add x5, x0, #512
	mov x6, #4
1:	ldr q0, [x0], #64
	prfm pldl1keep, [x5]
	prfm pldl1keep, [x5, x6, lsl #3]
	add x5, x5, #64
	add x6, x6, #1
	subs x1, x1, #1
	b.ne 1b
	ret
function strided
	mov x3, #0
1:	prfm pldl1keep, [x0, #1024]
	ldp x4, x5, [x0]
	add x0, x0, #64
	add x3, x3, x4
	prfm pldl1keep, [x0, #2048]
	subs x1, x1, #1
	b.ne 1b
	mov x0, x3
	ret
"""

# Calls axpy on 64 floats four times then strided and ahead on 64 lines twice, and ends with status 7.
START = """
	.globl _start
_start:
	mov x20, #4
1:	adrp x0, left
	adrp x1, right
	mov x2, #64
	fmov s0, #2.0
	bl axpy
	subs x20, x20, #1
	b.ne 1b
	mov x20, #2
2:	adrp x0, left
	mov x1, #64
	bl strided
	subs x20, x20, #1
	b.ne 2b
	mov x20, #2
3:	adrp x0, left
	mov x1, #64
	bl ahead
	subs x20, x20, #1
	b.ne 3b
	mov x0, #7
	mov x8, #94
	svc #0
	.bss
	.p2align 12
left:	.zero 16384
right:	.zero 16384
"""


ALL = ProcessOptions()
ROOT = Path(__file__).parents[4]


def needs_traced_qemu() -> None:
    """Skip where no emulator takes the plugin."""
    try:
        traced_qemu()
    except MavcgError as error:
        pytest.skip(str(error))


def program_of(folder: Path, name: str, source: str, *flags: str, suffix: str = ".S") -> Path:
    """Build a static program from assembly or C."""
    path, out = folder / f"{name}{suffix}", folder / name
    path.write_text(source)
    # As scripts/warm_toolchain.py links: for other flags or folders ziglang builds a C library, half a minute.
    words = ["-target", "aarch64-linux-musl", "-static", "-O2", *PLAIN_CODE_FLAGS, *flags, str(path), "-o", str(out)]
    run_zig("cc", words, "building", ROOT)
    return out


def simulated(core: str, *command: str | Path, options: ProcessOptions = ALL) -> ProcessSimulation:
    kind = load_core(core)
    return simulate_process([str(word) for word in command], kind, load_timing(kind), None, options)


def instructions_by_qemu(program: Path, log: Path) -> int:
    """The instructions of a program by the emulator's own log, one line for each in single steps."""
    emulator = shutil.which("qemu-aarch64") or ""
    words = [emulator, "-singlestep", "-d", "exec,nochain", "-D", str(log), str(program)]
    subprocess.run(words, capture_output=True, timeout=60)
    return len(re.findall(r"^Trace ", log.read_text(), re.MULTILINE))
