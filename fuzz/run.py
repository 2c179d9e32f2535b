"""Run fuzz targets: `python -m fuzz.run [--minutes M] [--runs N] [--record] [TARGET ..]`.

The exit status is 1 where a target has a fault."""

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bench.record import commit
from fuzz.c_line_share import functions_of, line_share
from fuzz.recorded import Ran, record
from fuzz.targets import NAMES

FOLDER = Path(__file__).parent
BUILD = FOLDER.parent / "build/fuzz"
INPUT_SECONDS = 120  # by the clock, which goes on while others have the processor: most inputs take milliseconds
INPUT_MIB = 3072
LONGEST_INPUT = 1 << 16  # bytes
NO_COMPILER = 77  # exit status of c/build.sh
# Freed memory that is kept apart is counted without what its alignment takes: of pages, many times its size.
_SANITIZERS = {"ASAN_OPTIONS": "quarantine_size_mb=16"}
_STATUS = re.compile(r"^#(\d+)\s+\w+\s+cov: (\d+) ft: (\d+) corp: (\d+)/", re.MULTILINE)


def commands(names: Sequence[str] = ()) -> Mapping[str, tuple[str, list[str]]]:
    """Target -> language and command to which libFuzzer's options are added; those named, or all that are there."""
    available: dict[str, tuple[str, list[str]]] = {}
    known = (*NAMES, *sorted(path.stem for path in (FOLDER / "c").glob("*.c")))
    for name in names:
        if name not in known:
            raise SystemExit(f"fuzz: there is no target '{name}'; targets are {', '.join(known)}")
    if importlib.util.find_spec("atheris"):
        available = {name: ("Python", [sys.executable, "-m", "fuzz.one", name]) for name in NAMES}
    else:
        print("fuzz: atheris is not installed (pip install 'mavcg[fuzz]'): no Python targets", file=sys.stderr)
    available |= {path.name: ("C", [str(path)]) for path in c_targets(names)}
    for name in names:
        if name not in available:
            raise SystemExit(f"fuzz: {name}: cannot be run here; install what is missing")
    return {name: available[name] for name in names or available}


def c_targets(names: Sequence[str]) -> list[Path]:
    """Executables that c/build.sh makes; those of this very commit, which take minutes, are not made again."""
    script = FOLDER / "c/build.sh"
    if not script.is_file() or (names and set(names) <= set(NAMES)):
        return []
    built = BUILD / "c"
    built.mkdir(parents=True, exist_ok=True)
    state, kept = f"{commit()} {os.environ.get('CLANG', '')}", built / "commit"
    is_clean = not state.startswith("none ") and "-dirty" not in state
    if not is_clean or not kept.is_file() or kept.read_text() != state:
        kept.unlink(missing_ok=True)
        status = subprocess.run(["sh", str(script), str(built)]).returncode
        if status == NO_COMPILER:
            return []
        if status:
            raise SystemExit(f"fuzz: {script} ended with status {status}")
        kept.write_text(state)
    return sorted(path for path in built.iterdir() if path.is_file() and path.stat().st_mode & 0o100)


def run_target(name: str, language: str, command: Sequence[str], seconds: float | None, runs: int | None) -> Ran:
    """Run one target from its corpora, for a time, a number of executions, or the shorter of both."""
    kept = BUILD / name / "corpus"
    kept.mkdir(parents=True, exist_ok=True)
    committed = FOLDER / "corpus" / name
    options = [str(kept), *([str(committed)] if committed.is_dir() else [])]
    options += [f"-artifact_prefix={BUILD / name}/", f"-timeout={INPUT_SECONDS}", f"-rss_limit_mb={INPUT_MIB}"]
    options += [f"-max_len={LONGEST_INPUT}", "-print_final_stats=1", "-verbosity=1"]
    if seconds is not None:
        options.append(f"-max_total_time={max(1, round(seconds))}")
    if runs is not None:
        options.append(f"-runs={runs}")
    started = time.monotonic()
    line, environment = [*command, *options], {**_SANITIZERS, **os.environ}
    done = subprocess.run(line, cwd=FOLDER.parent, capture_output=True, text=True, errors="replace", env=environment)
    result = ran(name, language, done.returncode, done.stdout + done.stderr, time.monotonic() - started)
    folders = [folder for folder in (kept, committed) if folder.is_dir()]
    reached, lines = (python_lines if language == "Python" else c_lines)(name, Path(command[0]), folders)
    return replace(result, reached=reached, lines=lines)


def python_lines(name: str, _program: Path, folders: Sequence[Path]) -> tuple[int, int]:
    """Return (lines of the target's readers that inputs reach, all lines); in a process that Atheris is not in."""
    command = [sys.executable, "-m", "fuzz.line_share", name, *map(str, folders)]
    done = subprocess.run(command, cwd=FOLDER.parent, capture_output=True, text=True)
    shares = json.loads(done.stdout) if done.returncode == 0 else {}
    return sum(reached for reached, _ in shares.values()), sum(lines for _, lines in shares.values())


def c_lines(name: str, program: Path, folders: Sequence[Path]) -> tuple[int, int]:
    """Return (lines of the target's readers that inputs reach, all lines), by the program that build.sh made for it."""
    counting = program.parent / "lines" / name
    if not counting.is_file():
        return 0, 0
    raw, merged = counting.with_suffix(".raw"), counting.with_suffix(".merged")
    tools = {"LLVM_PROFILE_FILE": str(raw), **os.environ}
    options = ["-runs=0", f"-artifact_prefix={BUILD / name}/"]  # a slow input is written, too
    subprocess.run([str(counting), *options, *map(str, folders)], capture_output=True, env=tools)
    version = (program.parent / "lines/version").read_text().strip()
    merge = [f"llvm-profdata{version}", "merge", "-sparse", str(raw), "-o", str(merged)]
    export = [f"llvm-cov{version}", "export", f"-instr-profile={merged}", str(counting)]
    try:
        subprocess.run(merge, check=True, capture_output=True)
        counts = subprocess.run(export, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return 0, 0
    return line_share(json.loads(counts), functions_of(name))


def ran(name: str, language: str, status: int, output: str, seconds: float) -> Ran:
    """Read what libFuzzer printed."""
    lines = _STATUS.findall(output)
    executions, edges, features, corpus = map(int, lines[-1]) if lines else (0, 0, 0, 0)
    fault = "" if status == 0 else _fault(output) or f"ended with status {status}"
    return Ran(name, language, executions, edges, features, corpus, round(seconds, 1), fault)


def _fault(output: str) -> str:
    """The exception or sanitizer's report, and where the input was written."""
    begins = r"^.*(Uncaught Python exception|ERROR: \w+Sanitizer|ERROR: libFuzzer|: runtime error: |Error:).*$"
    start = re.search(begins, output, re.MULTILINE)
    lines = (output[start.start() :] if start else output).splitlines()
    kept = [line for line in lines if "Test unit written" in line]
    return "\n".join([line[:300] for line in lines if not line.startswith("0x")][:25] + kept)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.run", description="Coverage-guided fuzzing")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="all")
    parser.add_argument("--seconds", type=float, help="of all targets together")
    parser.add_argument("--minutes", type=float, help="the same")
    parser.add_argument("--runs", type=int, help="executions of each target")
    parser.add_argument("--record", action="store_true", help="add to bench/results/fuzz_*targets.json")
    arguments = parser.parse_args()
    chosen = commands(arguments.targets)
    seconds = arguments.seconds or (arguments.minutes and arguments.minutes * 60)
    seconds = seconds if seconds or arguments.runs else 300.0
    named = f"fuzz.run{f' --runs {arguments.runs}' if arguments.runs else ''} --record"
    results = []
    for name, (language, command) in chosen.items():
        result = run_target(name, language, command, seconds and seconds / len(chosen), arguments.runs)
        results.append(result)
        print(
            f"{name}: {result.executions} executions, {result.edges} edges, {result.corpus} inputs kept, "
            f"{result.share or 'lines not counted'}, {result.seconds:.0f} s"
            + (f"\n{result.fault}" if result.fault else ""),
            flush=True,
        )
        if arguments.record:  # at once: a run that is ended keeps what it has done
            record([result], named)
    print(f"{len(results)} targets, {sum(result.executions for result in results)} executions")
    sys.exit(1 if any(result.fault for result in results) else 0)


if __name__ == "__main__":
    main()
