"""Reads facts of a machine: the files that a library's selector reads, and clocks, governors, temperatures.

A script prints the files; they are written to a local folder and read by the selector's own C code
(runtime/binding.py), so that a board is recognised as by its libraries.
"""

import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from mavcg.files.scratch import scratch_folder
from mavcg.profiles.board_files import parse_cpus
from mavcg.runtime.binding import detect

_CPU_FOLDER = "sys/devices/system/cpu"
_FILES = (
    "proc/cpuinfo",
    "proc/meminfo",
    "proc/self/status",
    "proc/device-tree/model",
    f"{_CPU_FOLDER}/present",
    f"{_CPU_FOLDER}/online",
    "sys/devices/cpu_core/cpus",
    "sys/devices/cpu_atom/cpus",
    "sys/devices/cpu_lowpower/cpus",
)
_OF_CPU = (
    "regs/identification/midr_el1",
    "cpufreq/scaling_governor",
    "cpufreq/scaling_cur_freq",
    "cpufreq/scaling_max_freq",
    "cpufreq/cpuinfo_max_freq",
)
_OF_ZONE = ("type", "temp")
_MARK = "@@mavcg "
# Only files that the script asks for: a name that a board makes up could be a folder of another's.
_OF_CPU_NAME = "|".join(map(re.escape, _OF_CPU))
_FILE_NAME = re.compile(
    rf"{'|'.join(map(re.escape, _FILES))}|{_CPU_FOLDER}/cpu[0-9]{{1,5}}/(?:{_OF_CPU_NAME})"
    rf"|sys/class/thermal/thermal_zone[0-9]{{1,5}}/(?:{'|'.join(_OF_ZONE)})"
)
ARCHES = {"aarch64": "aarch64", "arm64": "aarch64", "x86_64": "x86_64"}


@dataclass(frozen=True)
class CpuFacts:
    """The facts of a CPU; a fact that cannot be read is None, "" or True.

    core: None if it is not recognised. how: by what it is recognised. online, allowed: True if it runs, and if our
    programs may run on it. khz: its current clock. most_khz: maximum of the hardware. limit_khz: maximum that the
    governor may set, which is lower if the chip is hot or limited by the user.
    """

    cpu: int
    core: str | None
    how: str
    online: bool = True
    allowed: bool = True
    governor: str = ""
    khz: int | None = None
    limit_khz: int | None = None
    most_khz: int | None = None


@dataclass(frozen=True)
class MachineFacts:
    """The facts of a machine.

    arch: "aarch64", "x86_64", or the machine's name of another. system: its kernel. model: its own name, or "".
    free_bytes: in the folder for temporary files. memory_bytes: available to programs. celsius: (zone, temperature).
    """

    arch: str
    system: str
    model: str
    cpus: tuple[CpuFacts, ...]
    free_bytes: int | None = None
    memory_bytes: int | None = None
    celsius: tuple[tuple[str, float], ...] = ()

    @property
    def cores(self) -> tuple[str, ...]:
        """The recognised core types, in the order of their CPUs, without duplicates."""
        return tuple(dict.fromkeys(cpu.core for cpu in self.cpus if cpu.core))


def facts_script(root: str, folder: str) -> str:
    """Return a script of one line, for sh, that prints facts and each readable file, after a line with its name."""
    patterns = [*_FILES, *(f"{_CPU_FOLDER}/cpu[0-9]*/{name}" for name in _OF_CPU)]
    patterns += [f"sys/class/thermal/thermal_zone*/{name}" for name in _OF_ZONE]
    show = f'if [ -r "$f" ]; then echo; echo "{_MARK}$f"; cat "$f" 2> /dev/null || true; fi'
    tell = {
        "arch": "uname -m",
        "system": "uname -sr",
        "product": "getprop ro.product.model 2> /dev/null",
        "free": f"df -Pk {shlex.quote(folder)} 2> /dev/null || df {shlex.quote(folder)} 2> /dev/null",
    }
    commands = "; ".join(f'echo; echo "{_MARK}:{name}"; {command}' for name, command in tell.items())
    return f"{commands}; cd {shlex.quote(root)} && for f in {' '.join(patterns)}; do {show}; done"


def facts_of(text: str) -> MachineFacts:
    """Parse the output of facts_script."""
    texts = _texts(text)
    arch = ARCHES.get(_word(texts, ":arch"), _word(texts, ":arch"))
    files = {name: content for name, content in texts.items() if _FILE_NAME.fullmatch(name)}
    online = _list(files, f"{_CPU_FOLDER}/online")
    allowed = re.search(r"^Cpus_allowed_list:\s*(\S+)", files.get("proc/self/status", ""), re.MULTILINE)
    allowed_cpus = _parse_numbers(allowed[1]) if allowed else None
    cpus = tuple(
        CpuFacts(
            cpu,
            core,
            how,
            online is None or cpu in online,
            allowed_cpus is None or cpu in allowed_cpus,
            _word(files, f"{_CPU_FOLDER}/cpu{cpu}/cpufreq/scaling_governor"),
            *(
                _number(files, f"{_CPU_FOLDER}/cpu{cpu}/cpufreq/{name}")
                for name in ("scaling_cur_freq", "scaling_max_freq", "cpuinfo_max_freq")
            ),
        )
        for cpu, core, how in _detect_cores(files)
    )
    memory = re.search(r"^MemAvailable:\s*([0-9]{1,18}) kB", files.get("proc/meminfo", ""), re.MULTILINE)
    model = _word(texts, ":product") or files.get("proc/device-tree/model", "").strip("\0\n ")
    return MachineFacts(
        arch,
        texts.get(":system", "").strip(),
        model,
        cpus,
        _free_bytes(texts.get(":free", "")),
        int(memory[1]) * 1024 if memory else None,
        _temperatures(files),
    )


def with_own_cores(facts: MachineFacts) -> MachineFacts:
    """Return this machine's facts with its cores as a library recognises them, by registers that no file shows."""
    detected = {cpu.cpu: cpu for cpu in detect()}
    return replace(
        facts,
        cpus=tuple(
            replace(cpu, core=detected[cpu.cpu].core, how=detected[cpu.cpu].how) if cpu.cpu in detected else cpu
            for cpu in facts.cpus
        ),
    )


def _texts(text: str) -> dict[str, str]:
    """Return name -> the text after its mark. An old adb writes CR LF."""
    parts = text.replace("\r\n", "\n").split(f"\n{_MARK}")
    named = (part.partition("\n") for part in parts[1:])
    return {name.strip(): content for name, _, content in named}


def _detect_cores(files: dict[str, str]) -> list[tuple[int, str | None, str]]:
    with scratch_folder("mavcg-facts-") as name:
        for path, content in files.items():
            to = Path(name) / path
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_text(content, encoding="utf-8")
        return [(cpu.cpu, cpu.core, cpu.how) for cpu in detect(Path(name))]


def _word(texts: dict[str, str], name: str) -> str:
    return texts.get(name, "").strip().split("\n")[0].strip()


def _number(texts: dict[str, str], name: str) -> int | None:
    word = _word(texts, name)
    return int(word) if word.isascii() and word.isdigit() and len(word) < 16 else None


def _list(texts: dict[str, str], name: str) -> tuple[int, ...] | None:
    return _parse_numbers(_word(texts, name)) if name in texts else None


def _parse_numbers(text: str) -> tuple[int, ...] | None:
    try:
        return parse_cpus(text)
    except ValueError:
        return None


def _free_bytes(table: str) -> int | None:
    """Return the free bytes in df's output: fourth column of the last line, in KiB; None for old Android's units."""
    lines = table.strip().splitlines()
    words = lines[-1].split() if len(lines) > 1 else []
    return int(words[3]) * 1024 if len(words) > 3 and re.fullmatch("[0-9]{1,18}", words[3]) else None


def _temperatures(files: dict[str, str]) -> tuple[tuple[str, float], ...]:
    """Return (zone, temperature in degrees Celsius); Linux' thermal sysfs has thousandths of a degree."""
    celsius: dict[str, float] = {}
    for path, content in files.items():
        if path.startswith("sys/class/thermal/") and path.endswith("/temp"):
            zone = _word(files, path.removesuffix("temp") + "type") or path.split("/")[-2]
            text = content.strip()
            if re.fullmatch(r"-?\d{1,7}", text) and -40_000 < int(text) < 200_000:
                celsius[zone] = max(int(text) / 1000, celsius.get(zone, -273.0))
    return tuple(sorted(celsius.items()))
