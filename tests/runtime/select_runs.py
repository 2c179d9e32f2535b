"""What runs of the selector's test programs print, and what they run with."""

import subprocess

from mavcg.hardware.core import Core, Midr, X86Model

Done = subprocess.CompletedProcess[str]
ALDER_LAKE = (X86Model("GenuineIntel", 6, (0x9A,)),)
NO_RSEQ = {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"}


def lines(done: Done) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


BOARDS: dict[str, tuple[list[str], Core, Core]] = {
    "arm": (
        ["-DMAVCG_ARM_SOURCES=1", "-DMAVCG_X86_SOURCES=0", "-DMAVCG_RUNNING_MIDR=midr_of_board"],
        Core("little", "aarch64", "in", "cortex-a55", "", (Midr(0x41, 0xD05, 1),)),
        Core("big", "aarch64", "out", "cortex-a75", "", (Midr(0x41, 0xD0A),)),
    ),
    "x86": (
        ["-DMAVCG_CPUID=cpuid_of_board"],
        Core("p", "x86_64", "out", "x86-64", "", x86_kind="core", x86_models=ALDER_LAKE),
        Core("e", "x86_64", "out", "x86-64", "", x86_kind="atom", x86_models=ALDER_LAKE),
    ),
}
