"""The facts of the machine that a record was measured on."""

import os
import platform
from pathlib import Path

from llvmlite import binding as llvm

from mavcg.runtime.binding import detect


def machine() -> dict[str, str]:
    """Describe the machine, for readers who judge the figures."""
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    models = [
        line.partition(":")[2].strip() for line in text.splitlines() if line.startswith(("model name", "Hardware"))
    ]
    governor = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    # A cloud's name of a processor, such as "AMD EPYC", is that of several cores; mavcg's and LLVM's are of one.
    core = next((cpu.core for cpu in detect() if cpu.core), None) or llvm.get_host_cpu_name()
    return {
        "processor": f"{models[0]} ({core})" if models else platform.machine(),
        "cpus": str(os.cpu_count()),
        "governor": governor.read_text().strip() if governor.exists() else "not shown",
        "virtual": "yes" if "hypervisor" in text else "not known",
        "system": f"{platform.system()} {platform.release()}",
        "libc": " ".join(platform.libc_ver()),
    }
