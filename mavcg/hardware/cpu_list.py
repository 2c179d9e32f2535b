"""Format CPU numbers as the Linux kernel does in /sys: 0-3,6."""

from collections.abc import Iterable


def cpu_ranges(cpus: Iterable[int]) -> str:
    """Return CPU numbers, in any order, as a list of ranges: (0, 1, 2, 3, 6) is "0-3,6"."""
    ends: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if ends and cpu == ends[-1][1] + 1:
            ends[-1][1] = cpu
        else:
            ends.append([cpu, cpu])
    return ",".join(f"{low}-{high}" if high > low else f"{low}" for low, high in ends)


def cpus_text(cpus: Iterable[int]) -> str:
    """Return CPU numbers in words: "CPU 4", "CPUs 0-3"; "" for none."""
    ranges = cpu_ranges(cpus)
    return f"CPU{'' if ranges.isdigit() else 's'} {ranges}" if ranges else ""
