"""Runs programs for `mavcg auto --runner` on a board over ssh or adb, under the board's perf or simpleperf.

The program, the library and the files that the command names are copied to a folder there, removed at the end.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mavcg.errors import MavcgError, ProfileError, ToolError
from mavcg.files.scratch import scratch_folder
from mavcg.hardware.cpu_list import cpus_text
from mavcg.lab.runners.facts import MachineFacts
from mavcg.lab.runners.shell_runner import ShellRunner
from mavcg.lab.runners.transport import last_line
from mavcg.program.auto_steps import AutoMachine, AutoRequest, detected_board
from mavcg.program.build_values import BuildRequest
from mavcg.program.perf_runs import CpuGroup
from mavcg.program.profiling.perf_script import read_perf_script
from mavcg.program.profiling.record import FALLBACK_EVENT, Recording, RecordOptions
from mavcg.program.profiling.sample_table import SampleTable
from mavcg.program.profiling.simpleperf import read_simpleperf

_SAMPLES = "samples.txt"
_NO_RECORDER = 97  # exit status of the script; unlikely to be a program's own
_NO_SAMPLES = 98
_SILENCE_S = 3600.0  # its output is discarded, so that the connection is silent while it runs
_FIELDS = "comm,tid,cpu,time,period,event,ip,sym,dso"


@dataclass
class _Sent:
    """Files that the board already has: name -> (path, size in bytes, modification time in ns)."""

    files: dict[str, tuple[str, int, int]] = field(default_factory=dict)

    def fresh(self, files: Mapping[str, Path]) -> dict[str, Path]:
        """Return the files that the board lacks or that have changed since they were copied."""
        states = {name: (str(p), p.stat().st_size, p.stat().st_mtime_ns) for name, p in files.items()}
        fresh = {name: path for name, path in files.items() if self.files.get(name) != states[name]}
        self.files |= states
        return fresh


@dataclass(frozen=True)
class RunsThere:
    """A board that programs run on, as PerfRuns.

    Args:
        runner: the connection to the board.
        facts: its architecture, CPUs and governors.
        folder: the program's folder on this machine.
        library: the library that programs use; None for none.
    """

    runner: ShellRunner
    facts: MachineFacts
    folder: Path = Path()
    library: Path | None = None
    sent: _Sent = field(default_factory=_Sent)

    def check(self, command: Sequence[str]) -> None:
        """Check a command, as PerfRuns.check: the program must be a file on this machine, which is copied to the board.

        Raises: ProfileError if the file is missing.
        """
        program = self.folder / command[0]
        if not program.is_file():
            raise ProfileError(
                f"{command[0]}: is not a file in {self.folder.absolute()}; with --runner the command names a program "
                f"on this machine, built for {self.runner.name}, which is copied there"
            )

    def using(self, folder: Path, library: Path | None) -> "RunsThere":
        """Return the same board for another program, as PerfRuns.using."""
        return replace(self, folder=folder, library=library)

    def describe(self, cpus: Sequence[int]) -> str:
        """Describe the board and its CPUs, as PerfRuns.describe."""
        governors = sorted({cpu.governor for cpu in self.facts.cpus if cpu.cpu in cpus and cpu.governor})
        words = [self.facts.model or self.facts.arch, cpus_text(cpus), *(f"governor {name}" for name in governors)]
        return f"{self.runner.name}: {' '.join(filter(None, words))}"

    def record(
        self, command: Sequence[str], options: RecordOptions, cpus: Sequence[int] = (), label: str = ""
    ) -> Recording:
        """Run a command under the board's profiler, as PerfRuns.record.

        Raises: ToolError if the board has neither perf nor simpleperf, or they may not sample.
        """
        files, words = self._files(command)
        with scratch_folder("mavcg-auto-") as scratch:
            script, samples = scratch / "record.sh", scratch / _SAMPLES
            script.write_text(recording_script(words, options, cpus, label, self.library))
            done = self.runner.run(script, (), files_in=self.sent.fresh(files), silence_s=_SILENCE_S)
            if done.status == _NO_RECORDER:
                raise ToolError(
                    f"{self.runner.name}: neither perf nor simpleperf is installed, and profiling needs one of them; "
                    "install one (Debian: apt install linux-perf; Android: the NDK's simpleperf to a folder of PATH)"
                )
            if done.status == _NO_SAMPLES:
                raise ToolError(
                    f"{self.runner.name}: nothing was recorded ({last_line(done.words)}); make sure that perf may "
                    "sample there (kernel.perf_event_paranoid), and that the program computes for at least a second"
                )
            self.runner.fetch(_SAMPLES, samples)
            reading = _reading(samples, self.runner.name)
        status = -(done.status - 128) if 128 < done.status < 160 else done.status
        return Recording(replace(reading, command=shlex.join(command)), status)

    def _files(self, command: Sequence[str]) -> tuple[dict[str, Path], list[str]]:
        """Return (name on the board -> file to copy, the command's arguments on the board)."""
        files: dict[str, Path] = {}
        words: list[str] = []
        for number, word in enumerate(command):
            path = self.folder / word
            if number and not path.is_file():
                words.append(word)
                continue
            name = path.name if path.name not in files else f"{number}-{path.name}"
            files[name] = path
            words.append(name if number else f"./{name}")
        if self.library is not None:
            files[self.library.name] = self.library
        return files, words


def recording_script(
    command: Sequence[str], options: RecordOptions, cpus: Sequence[int], label: str, library: Path | None
) -> str:
    """Return the shell script that records a command and prints its samples to a file.

    The script's exit status is the command's.
    Source: perf-record(1), perf-script(1); simpleperf's executable_commands_reference.md; taskset's mask is hexadecimal
    both in util-linux and in toybox.
    """
    program = shlex.join(command)
    if cpus:
        program = f"taskset {sum(1 << cpu for cpu in cpus):x} {program}"
    variables = {"LD_LIBRARY_PATH": ".", "MAVCG_TRACE": "0"}
    if library is not None:
        variables["MAVCG_LIBRARY"] = f"./{library.name}"
    if label:
        variables["MAVCG_CPU_MAP"] = f"*={label}"
    event = shlex.quote(options.event or "")
    return f"""set -u
rm -f {_SAMPLES} recorded.data
chmod 700 {shlex.quote(command[0])}
event={event}
if command -v perf > /dev/null 2>&1; then
    if [ -z "$event" ]; then
        perf record -q -o probe.data -- true > /dev/null 2>&1 || event={FALLBACK_EVENT}
    fi
    set -- perf record -q --sample-cpu -F {options.frequency_hz} -o recorded.data
elif command -v simpleperf > /dev/null 2>&1; then
    if [ -z "$event" ]; then
        simpleperf record -o probe.data true > /dev/null 2>&1 || event={FALLBACK_EVENT}
    fi
    set -- simpleperf record -f {options.frequency_hz} -o recorded.data
else
    exit {_NO_RECORDER}
fi
if [ -n "$event" ]; then set -- "$@" -e "$event"; fi
tool=$1
if [ "$tool" = perf ]; then set -- "$@" --; fi
env {" ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())} "$@" {program} > /dev/null
status=$?
[ -s recorded.data ] || exit {_NO_SAMPLES}
if [ "$tool" = perf ]; then
    perf script --header --no-demangle -G -f -F {_FIELDS} -i recorded.data > {_SAMPLES} ||
        perf script --no-demangle -G -f -F comm,tid,time,event,ip,sym,dso -i recorded.data > {_SAMPLES}
else
    simpleperf report --csv -n --no-demangle --sort dso,symbol -i recorded.data > {_SAMPLES}
fi
[ -s {_SAMPLES} ] || exit {_NO_SAMPLES}
exit $status
"""


def _reading(samples: Path, name: str) -> SampleTable:
    with samples.open(encoding="utf-8", errors="replace") as lines:
        text = lines.readlines()
    if any(line.startswith(("Overhead,", "Cmdline:")) for line in text[:40]):
        return read_simpleperf(text, name)
    return read_perf_script(text, name)


def board_machine(auto_request: AutoRequest, request: BuildRequest, runner: ShellRunner) -> AutoMachine:
    """Return the board that a runner connects to, as the machine of `mavcg auto`.

    Raises: RunnerError if the board is not reached; MavcgError if it has another architecture.
    """
    facts = runner.facts()
    runner.wrapper = ("sh",)  # the recording script is all that runs there
    if facts.arch != request.target.arch:
        raise MavcgError(
            f"--runner {runner.name}: is {facts.arch}, and the library is for {request.target.zig_name}; name "
            "another board"
        )
    usable = [cpu for cpu in facts.cpus if cpu.online and cpu.allowed]
    cpus_by_core = [(core.name, tuple(cpu.cpu for cpu in usable if cpu.core == core.name)) for core in request.cores]
    groups = tuple(CpuGroup(name, cpus) for name, cpus in cpus_by_core if cpus)
    board = detected_board(runner.name, request.target.zig_name, ((cpu.cpu, cpu.core) for cpu in facts.cpus))
    return AutoMachine(RunsThere(runner, facts, auto_request.project.folder), groups, board=board)
