"""Read the caches of this machine's CPUs and the name of its processor, as Linux lists them in sysfs and /proc."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mavcg.profiles.board_files import parse_cpus

CPU_FOLDER = Path("sys/devices/system/cpu")
_SIZE = re.compile(r"(\d{1,12})([KMG]?)\s*")
_UNIT = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Caches:
    """Data caches of one CPU, in bytes; None for a cache that is not listed.

    l2_cores: number of cores, not hardware threads, that share the L2 cache.
    """

    l1d_bytes: int | None = None
    l2_bytes: int | None = None
    l2_cores: int | None = None
    l3_bytes: int | None = None


def read_caches(cpu: int, root: Path = Path("/")) -> Caches:
    """Return the data caches of a CPU as Linux lists them; unlisted and malformed entries are None.

    root: folder that stands for /, with sys/ and proc/.
    """
    sizes: dict[str, int] = {}
    for index in sorted((root / CPU_FOLDER / f"cpu{cpu}/cache").glob("index[0-9]*")):
        level, kind = _line(index / "level"), _line(index / "type")
        size = _SIZE.fullmatch(_line(index / "size"))
        if kind not in ("Data", "Unified") or level not in ("1", "2", "3") or size is None or not int(size[1]):
            continue
        sizes["l1d_bytes" if level == "1" else f"l{level}_bytes"] = int(size[1]) * _UNIT[size[2]]
        sharing = _cpus(_line(index / "shared_cpu_list"))
        if level == "2" and cpu in sharing:
            sizes["l2_cores"] = len(first_threads(sharing, root))
    return Caches(**sizes)


def processor_name(root: Path = Path("/")) -> str:
    """Return the processor's own name; on AArch64 the MIDRs of its cores; "" if it has no name."""
    try:
        text = (root / "proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    names = re.findall(r"^(?:model name|CPU (?:implementer|variant|part))\s*:\s*(.*\S)", text, re.MULTILINE)
    return " ".join(dict.fromkeys(names))


def first_threads(cpus: Sequence[int], root: Path) -> list[int]:
    """Return the first hardware thread of each core; every CPU if Linux does not list hardware threads."""
    first: list[int] = []
    seen: set[int] = set()
    for cpu in cpus:
        if cpu not in seen:
            first.append(cpu)
            seen.update(_cpus(_line(root / CPU_FOLDER / f"cpu{cpu}/topology/thread_siblings_list")))
    return first


def _cpus(text: str) -> tuple[int, ...]:
    try:
        return parse_cpus(text)
    except ValueError:
        return ()


def _line(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
