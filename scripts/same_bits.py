"""Records digests of everything that mavcg generates for some programs and networks, and compares two such records.

`scripts/same_bits.sh` runs it. A record is a JSON file: "host", the machine; "facts", what was measured of it, which a
comparison uses again, since plans for this machine depend on it; "digests": job -> file -> SHA-256. A job is a program
or a network for one board; each runs in a folder of its own, with relative names only, so that no path of the machine
is in what it writes.
"""

import argparse
import fnmatch
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mavcg.errors import MavcgError
from mavcg.files.scratch import scratch_folder
from mavcg.files.whole_file import write_whole
from mavcg.hosts.facts import host_facts
from mavcg.hosts.host import host_board
from mavcg.text.terminal import say, show
from scripts.floors import ROOT
from scripts.gate_networks import NETWORKS

MAVCG = (sys.executable, "-m", "mavcg.cli")
ARM = "aarch64-linux-gnu.2.17"
HOST = "x86_64-linux-gnu.2.36" if os.uname().machine == "x86_64" else ARM
BOARDS = ("host", "exynos9820", "rk3399", "generic")
# A program is always built for cores; "generic" is one core, without rescheduling.
PROGRAM_BOARDS: Mapping[str, Sequence[str]] = {
    "generic": ("--cores", "cortex-a72", "--tune", "off", "--keep-slower")
} | {board: ("--board", board) for board in BOARDS[:3]}
MODEL_BOARDS: Mapping[str, Sequence[str]] = {"generic": ("--target", ARM)} | {
    board: ("--board", board) for board in BOARDS[:3]
}
DUMP = "MAVCG_DUMP=all"
# What launch prints beside the growth of a file; and progress, which is printed now and then.
_TIMES = re.compile(rb", [\d.]+ s of CPU time|^mavcg: [^\n]*: \d+ s while [^\n]*\n", re.MULTILINE)


@dataclass(frozen=True)
class Job:
    """A command that generates code.

    name: program or network, and board. prepare: puts the inputs into a folder, returns the command's arguments.
    """

    name: str
    prepare: Callable[[Path], Sequence[str]]


# The selector with all settings, the default of earlier commits, so that their records can be compared.
_STATIC = ("--runtime", "static")


def _edge_app(folder: Path) -> None:
    shutil.copytree(ROOT / "examples/edge_app", folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("build"))


def _c_program(board: str, folder: Path) -> Sequence[str]:
    _edge_app(folder)
    options = ("--source", "ops/*.c", "--flag=-std=c11", "--flag=-O3", "--flag=-ffp-contract=off")
    return (
        *MAVCG,
        "build",
        *options,
        "--hot",
        "*_f32,gemm_s8",
        *PROGRAM_BOARDS[board],
        *_STATIC,
        "-o",
        "out/libops.so",
    )


def _cxx_program(board: str, folder: Path) -> Sequence[str]:
    _edge_app(folder)
    options = ("--source", "net.cpp", "--source", "image.cpp", "--flag=-std=c++17", "--flag=-O2", "--flag=-I.")
    return (
        *MAVCG,
        "build",
        *options,
        "--hot",
        "*draw_image*,*random_weights*",
        *PROGRAM_BOARDS[board],
        *_STATIC,
        "-o",
        "out/net.o",
    )


def _assembly(board: str, folder: Path) -> Sequence[str]:
    """The assembly is for AArch64: for the host it is built for the core of the generic job, rescheduled."""
    shutil.copy(ROOT / "tests/pipelines/handwritten_gemm.S", folder / "gemm.S")
    where = ("--cores", "cortex-a72", "--tune", "best") if board == "host" else PROGRAM_BOARDS[board]
    return (*MAVCG, "build", "--source", "gemm.S", "--hot", "gemm_row", *where, *_STATIC, "-o", "out/libgemm.so")


def _launch(board: str, folder: Path) -> Sequence[str]:
    _edge_app(folder)
    cores = 'cores = ["cortex-a55"]' if board == "generic" else f'board = "{board}"'
    (folder / "mavcg.toml").write_text(f'[build]\nhot = ["gemm_f32"]\nruntime = "static"\n{cores}\n')
    compiler = (sys.executable, "-m", "ziglang", "cc", "-g0", "-target", HOST if board == "host" else ARM)
    return (*MAVCG, "launch", "--strict", *compiler, "-O3", "-std=c11", "-c", "ops/gemm_f32.c", "-o", "out/gemm_f32.o")


PROGRAMS = {"c": _c_program, "c++": _cxx_program, "assembly": _assembly, "launch": _launch}


def _network(name: str, board: str, folder: Path) -> Sequence[str]:
    path = NETWORKS[name](folder / name)
    return (*MAVCG, "build", path.name, *MODEL_BOARDS[board], "-o", f"out/lib{name}.so")


def jobs() -> Iterator[Job]:
    """Yield every program and network for every board."""
    for board in BOARDS:
        for name, program in PROGRAMS.items():
            yield Job(f"{name} for {board}", partial(program, board))
        for name in NETWORKS:
            yield Job(f"{name} for {board}", partial(_network, name, board))


def digests(job: Job, folder: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Run a job in a new folder; return output file -> SHA-256, and the dump's.

    Raises: MavcgError if its command fails.
    """
    folder.mkdir(parents=True)
    command = job.prepare(folder)
    (folder / "out").mkdir()
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "MAVCG_LAUNCH_SERVER": "0", **environment}, capture_output=True
    )
    if done.returncode:
        raise MavcgError(f"{job.name}: {' '.join(command)}: status {done.returncode}\n{done.stderr.decode()[-2000:]}")
    found = {path.relative_to(folder / "out").as_posix(): path.read_bytes() for path in (folder / "out").rglob("*")}
    return {
        name: hashlib.sha256(data).hexdigest()
        for name, data in sorted({**found, DUMP: _TIMES.sub(b"", done.stderr)}.items())
    }


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the names of the files whose digests differ; jobs that only one record has differ in every file."""
    return [
        f"{job}: {file}"
        for job in sorted({*before, *after})
        for file in sorted({*before.get(job, {}), *after.get(job, {})})
        if before.get(job, {}).get(file) != after.get(job, {}).get(file)
    ]


def zig_cache() -> str:
    """Return the folder where ziglang keeps its own libraries, which are worth keeping and do not depend on mavcg."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return os.environ.get("ZIG_GLOBAL_CACHE_DIR") or str(Path(home) / "zig")


def record(chosen: Sequence[Job], facts: Mapping[str, Any], folder: Path) -> dict[str, dict[str, str]]:
    """Run jobs one after another; return job -> file -> digest. folder: for their files, and for empty caches.

    The user's own caches, costs and schedules are not used, since they might hide what changed.
    """
    (folder / "facts.json").write_text(json.dumps(facts))
    environment = {
        "MAVCG_DUMP": "all",
        "MAVCG_HOST_FACTS": str(folder / "facts.json"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "XDG_DATA_HOME": str(folder / "data"),
        "ZIG_GLOBAL_CACHE_DIR": zig_cache(),
        "NO_COLOR": "1",
    }
    made = {}
    for number, job in enumerate(chosen):
        say(f"{job.name} ({number + 1} of {len(chosen)})")
        made[job.name] = digests(job, folder / f"job{number}", environment)
    return made


def main() -> None:
    """Write a record, compare it with an earlier one, and exit with status 1 if any digest differs."""
    parser = argparse.ArgumentParser(description="Record digests of all that mavcg generates.")
    parser.add_argument("output", type=Path, help="record to write, JSON")
    parser.add_argument("--against", type=Path, help="earlier record to compare with")
    parser.add_argument("--only", default="*", help="pattern of job names, such as 'attention for *'")
    options = parser.parse_args()
    before = json.loads(options.against.read_text()) if options.against else None
    chosen = [job for job in jobs() if fnmatch.fnmatch(job.name, options.only)]
    if not chosen:
        sys.exit(f"same_bits: --only {options.only}: no job has such a name; a name is 'attention for rk3399'")
    facts = before["facts"] if before else asdict(host_facts(host_board().clusters))
    with scratch_folder("mavcg-same-bits-") as folder:
        made = record(chosen, facts, folder)
    document = {"host": platform.processor() or platform.machine(), "facts": facts, "digests": made}
    write_whole(options.output, (json.dumps(document, indent=1) + "\n").encode(), "OUT.json")
    if before is None:
        return
    earlier = {name: files for name, files in before["digests"].items() if fnmatch.fnmatch(name, options.only)}
    different = differences(earlier, made)
    show("\n".join(different) or f"all {sum(map(len, made.values()))} digests of {len(made)} jobs are equal")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
