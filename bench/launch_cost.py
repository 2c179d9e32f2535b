"""CPU seconds of a compiler, alone and under `mavcg launch`, by file: `python -m bench.launch_cost`.

User and system time of all processes, children included, interleaved: median of three rounds. The cache holds what any
first file of a build leaves there; versions are compiled, and schedules searched for, anew in each round. Then the file
is compiled again with another macro that it does not use: its versions are in the cache. Python finds mavcg's byte
code, as where pip installed it. The program of `mavcg launch --program` does the same work from a cache of its own.
Both have the resident process that the first file of a build leaves, whose CPU time is counted, but for the column
"by itself", without one. `--long` adds the FFT with machine passes, which takes minutes.
"""

import argparse
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.record import facts, write
from bench.records import ROOT
from mavcg.toolchain.zig import zig_program

ROUNDS = 3
# Of each round: the compiler alone; under `mavcg launch`; the same without a resident process; with another option that
# changes nothing, so that the code of versions is in the cache; the same command again; the program of `mavcg launch
# --program`, and that again.
RUNS = ("plain", "launch", "itself", "edited", "again", "program", "program_again")
ARM = ("-target", "aarch64-linux-gnu.2.17")
# Every function of the FFT is hot, the static passes and those that users call, as in a library whose profile is flat.
FFT = ROOT / "bench/launch_fft.c"
PASSES = tuple(f"{way}{radix}" for way in ("forward", "backward") for radix in ("2", "3", "4", "5", "_pass"))
CALLED = (
    "factors,twiddles,forward,backward,real_split,real_join,scale,power,magnitude,multiply,correlate,hann,window,"
    "overlap_add,energy,peak,fir,from_pcm,to_pcm,bit_reverse"
)
ALL_HOT = (*PASSES, "turn", "any_radix", *(f"fft_{name}" for name in CALLED.split(",")))
ONE_HOT = """\
void smooth(const float *in, float *out, const float *taps, long n) {
    for (long i = 0; i < n; i++) {
        float sum = 0;
        for (int k = 0; k < 5; k++) sum += taps[k] * in[i + k];
        out[i] = sum;
    }
}
"""


@dataclass(frozen=True)
class File:
    """A file to compile. text: its C. hot: its hot functions. compiler: the words before the flags."""

    name: str
    text: str
    hot: tuple[str, ...]
    board: str
    compiler: tuple[str, ...]


def files(long: bool) -> list[File]:
    """Return the files that can be compiled here. long: those too that take minutes."""
    zig = (zig_program(), "cc", *ARM)
    fft = FFT.read_text(encoding="utf-8")
    gcc = [
        File("FFT, no hot function", fft, ("elsewhere",), "host", ("gcc",)),
        File("one function, hot", ONE_HOT, ("smooth",), "host", ("gcc",)),
        File("FFT, 32 hot functions", fft, ALL_HOT, "host", ("gcc",)),
    ]
    arm = [File("one function, hot", ONE_HOT, ("smooth",), "exynos9820", zig)]
    if long:
        arm.append(File("FFT, 32 hot functions", fft, ALL_HOT, "exynos9820", zig))
    return [*(gcc if shutil.which("gcc") else []), *arm]


def cpu_seconds(command: list[str], folder: Path, cache: Path, resident: bool = True) -> float:
    """Return the user and system time of a command with all that it waits for, and of a cache's resident processes.

    resident: False to have none. It ends the bench if the command fails.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"MAVCG_CACHE": str(cache), "MAVCG_CONFIG": str(folder / "mavcg.toml")}
    environment["MAVCG_LAUNCH_SERVER"] = "" if resident else "0"
    environment["PYTHONPYCACHEPREFIX"] = str(folder.parent / "bytecode")
    with tempfile.TemporaryDirectory(dir=folder) as zig:  # zig keeps what it has compiled
        environment |= {"ZIG_GLOBAL_CACHE_DIR": zig, "ZIG_LOCAL_CACHE_DIR": zig}
        before = sum(map(_quiet_seconds, residents(cache)))
        seconds = _cpu_seconds(command, folder, environment)
        return seconds + sum(map(_quiet_seconds, residents(cache))) - before


def residents(cache: Path) -> list[int]:
    """Return the resident processes of a cache."""
    numbers = [int(path.read_text() or 0) for path in (cache / "server").glob("*.lock")]
    return [number for number in numbers if number and Path(f"/proc/{number}/stat").exists()]


def _quiet_seconds(process: int) -> float:
    """Return the CPU time of a process and its children, once it has none that run (proc_pid_stat(5), fields 14-17)."""
    while Path(f"/proc/{process}/task/{process}/children").read_text().strip():
        time.sleep(0.01)
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _cpu_seconds(command: list[str], folder: Path, environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"bench: {' '.join(command)}: status {done.returncode}: {done.stderr.strip()}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(file: File, folder: Path) -> dict[str, Any]:
    """Return the CPU seconds of a file's compiler, and of the same command under `mavcg launch`."""
    folder.mkdir()
    (folder / "x.c").write_text(file.text, encoding="utf-8")
    hot = ", ".join(f'"{name}"' for name in file.hot)
    (folder / "mavcg.toml").write_text(f'[build]\nhot = [{hot}]\nboard = "{file.board}"\n', encoding="utf-8")
    (folder / "first.c").write_text(ONE_HOT.replace("smooth", file.hot[0]), encoding="utf-8")
    launch = [sys.executable, "-m", "mavcg.cli", "launch", "--strict"]
    first = [*launch, *file.compiler, "-O2", "-c", "first.c"]
    cpu_seconds(first, folder, folder / "warm", resident=False)
    cpu_seconds([*launch, "--program", "mavcg-launch"], folder, folder / "warm")
    seconds: dict[str, list[float]] = {name: [] for name in RUNS}
    for number in range(ROUNDS):
        for cache in (f"cache{number}", f"other{number}", f"alone{number}"):
            shutil.copytree(folder / "warm", folder / cache)
            if not cache.startswith("alone"):
                cpu_seconds([*first, "-DFIRST"], folder, folder / cache)
        compiler, program = [*file.compiler, "-O2", "-c", "x.c"], [str(folder / "mavcg-launch"), "--strict"]
        for name, command, cache in (
            ("plain", compiler, "cache"),
            ("launch", [*launch, *compiler], "cache"),
            ("itself", [*launch, *compiler], "alone"),
            ("edited", [*launch, *compiler, "-DOTHER"], "cache"),
            ("again", [*launch, *compiler], "cache"),
            ("program", [*program, *compiler], "other"),
            ("program_again", [*program, *compiler], "other"),
        ):
            seconds[name].append(cpu_seconds(command, folder, folder / f"{cache}{number}", cache != "alone"))
        for process in (*residents(folder / f"cache{number}"), *residents(folder / f"other{number}")):
            os.kill(process, signal.SIGTERM)
    medians = {name: statistics.median(measured) for name, measured in seconds.items()}
    return {
        "file": file.name,
        "compiler": "gcc" if file.compiler[0] == "gcc" else "zig cc",
        "board": file.board,
        **{f"{name}_s": round(median, 3) for name, median in medians.items()},
        **{f"{name}_ratio": round(median / medians["plain"], 2) for name, median in medians.items() if name != "plain"},
    }


def main() -> None:
    """Measure, and write bench/results/launch_cost.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true", help="add the FFT with machine passes")
    long = parser.parse_args().long
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(file, Path(folder) / str(number)) for number, file in enumerate(files(long))]
    print(write("launch_cost", facts("measured", "bench.launch_cost") | {"rounds": ROUNDS, "rows": rows}))


if __name__ == "__main__":
    main()
