"""The emulator, C library and CPUs that tests need of this machine, and the marks that skip tests without them."""

import os
import shutil
from pathlib import Path

import pytest

QEMU = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
# A C library for AArch64: Debian's libc6-arm64-cross.
SYSROOT = Path("/usr/aarch64-linux-gnu")
# Cores of exynos9820 and nobody's: the version that must run -> MIDR_EL1 (Linux arch/arm64/include/asm/cputype.h).
MIDRS = {"cortex-a55": 0x412FD050, "cortex-a75": 0x413FD0A0, "exynos-m4": 0x531F0030, "generic": 0x70000000}
needs_qemu = pytest.mark.skipif(QEMU is None, reason="qemu-aarch64 is not installed: Debian's qemu-user-static")
needs_qemu_and_libc = pytest.mark.skipif(
    QEMU is None or not (SYSROOT / "lib/ld-linux-aarch64.so.1").exists(),
    reason="needs qemu-aarch64 and a C library for it in /usr/aarch64-linux-gnu",
)
needs_two_cpus = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or not {0, 1} <= os.sched_getaffinity(0), reason="needs CPUs 0 and 1"
)
