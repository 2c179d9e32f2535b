"""The commands into which failures of files and processes are injected, with the files that they read and write."""

import ctypes
import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

CODE = "void scale(float *x, int n) { for (int i = 0; i < n; i++) x[i] = x[i] * 2.0f + 1.0f; }\n"


def _nothing() -> None:
    """Change nothing."""


@dataclass(frozen=True)
class Scenario:
    """A command line. prepare: writes what it reads into its folder. cold: its cache is empty before each run.

    {work} in a word is the command's folder, {first} that of what it begins with, {address} that of the first helper.
    plainly: another command line whose files are right too, where failures leave these. helpers: command lines of mavcg
    that run beside it all the time, without failures, each after the one before is ready. serves: it runs until it is
    ended, which it is when it has printed where it listens. environment: variables. stand_in: called in the process
    that runs the command, before it. grows: databases in which a command that is refused leaves what it has. passing:
    files that do not count. refusals: exit statuses, with words, of what cannot be done.
    """

    arguments: tuple[str, ...]
    prepare: Callable[[Path], None]
    cold: bool = False
    plainly: tuple[str, ...] = ()
    helpers: tuple[tuple[str, ...], ...] = ()
    serves: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    stand_in: Callable[[], None] = _nothing
    grows: tuple[str, ...] = ()
    passing: tuple[str, ...] = ()
    refusals: tuple[int, ...] = (2,)


def _code(folder: Path) -> None:
    (folder / "k.c").write_text(CODE)


def _project(folder: Path) -> None:
    _code(folder)
    (folder / "mavcg.toml").write_text('[build]\nhot = ["scale"]\ncores = ["skylake"]\n')


def _models(folder: Path) -> None:
    from fuzz.inject.libraries import write_models

    write_models(folder)


def _samples(folder: Path) -> None:
    import numpy as np

    _models(folder)
    (folder / "samples").mkdir()
    np.save(folder / "samples/0.npy", np.linspace(-1, 1, 4 * 6 * 6, dtype=np.float32).reshape(1, 4, 6, 6))


def _profile_and_code(folder: Path) -> None:
    """A program for a core that this machine is not, with its profile: the core's model decides."""
    _code(folder)
    (folder / "mavcg.toml").write_text(
        '[build]\nsources = ["k.c"]\ncores = ["cortex-a55"]\nprofile = "p.json"\noutput = "libk.so"\n'
        'measurements = "gains.json"\n'
    )
    samples = [{"symbol": "scale", "object": "app", "cpu": 0, "samples": 90.0, "records": 90}]
    samples.append({"symbol": "main", "object": "app", "cpu": 0, "samples": 1.0, "records": 1})
    profile = {"format": "mavcg-profile", "version": 1, "kind": "samples", "event": "cycles", "command": "./app"}
    rest = {"board": "", "notes": [], "samples": samples, "offsets": []}
    (folder / "p.json").write_text(json.dumps(profile | rest))


def _fleet(folder: Path) -> None:
    """A board of this machine's core, as the runner finds it, which is this machine."""
    from mavcg.lab.runners.open import LocalTransport
    from mavcg.lab.runners.shell_runner import ShellRunner
    from mavcg.toolchain.target import host_target

    _models(folder)
    with ShellRunner(LocalTransport()) as runner:
        known = [cpu for cpu in runner.facts().cpus if cpu.core]
    if not known:
        raise SystemExit("fuzz.inject: this machine's core is none that mavcg knows")
    (folder / "profiles/boards").mkdir(parents=True)
    (folder / "profiles/boards/desk.toml").write_text(
        f'name = "desk"\nsoc = "a desk"\ntarget = "{host_target().arch}-linux-gnu.2.17"\nsource = "made up"\n'
        f'[[clusters]]\ncore = "{known[-1].core}"\ncpus = "0-{known[-1].cpu}"\n'
    )
    (folder / "fleet.toml").write_text('[[board]]\nname = "desk-0"\ntype = "desk"\nrunner = "local"\n')
    (folder / "behaviour").write_text("")


def _measure_nothing() -> None:
    """Have programs that print figures in place of measuring them: 100 us for the first job, 110 for the next, .."""
    from mavcg.lab.runners.bench_program import BenchProgram
    from mavcg.lab.tuning import measured_core

    micros: dict[str, int] = {}
    fake = ROOT / "tests/mavcg/lab/fleet/fake_board.py"

    def build(jobs: Sequence[Any], machine: Any, core: Any, target: Any, folder: Path, *rest: Any) -> BenchProgram:
        times = [micros.setdefault(str(job), 100 + 10 * len(micros)) for job in jobs]
        words = shlex.join([sys.executable, "-I", "-S", str(fake), ",".join(map(str, times))])
        path = folder / "bench"
        path.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        return BenchProgram(path, len(times))

    measured_core.build_program = build  # type: ignore[attr-defined, assignment]


def _leave_resident() -> None:
    """Have `mavcg launch` leave its resident process, as on a command line, in which no call fails."""
    import mavcg.cli.launch as door
    from mavcg.program import launch_server

    command, launch, become_resident = os.getpid(), door.launch, launch_server._become_resident

    def without_failures() -> None:
        become_resident()
        ctypes.CDLL(None).mavcg_inject_begin()

    def by_itself(arguments: list[str]) -> int:
        return launch(arguments, resident=os.getpid() == command)

    os.environ["MAVCG_LAUNCH_SERVER"] = ""
    launch_server.LOOK_S = 0.2  # until it sees that its socket has gone, with the cache of this run
    launch_server._become_resident = without_failures
    door.launch = by_itself  # type: ignore[assignment]


def _token(folder: Path) -> None:
    from mavcg.lab.connections.token import make_token

    _models(folder)
    make_token(folder / "token.pem")


_PROGRAM = ("build", "--source", "k.c", "--hot", "scale", "--cores", "cortex-a55", "-o", "libk.so")
_MODEL = ("build", "dense.onnx", "--shape", "x=4x64", "--board", "host", "-o", "libd.so")
_GCC = ("gcc", "-O2", "-c", "k.c", "-o", "k.o")
_DATABASE = ("costs.sqlite",)
_TO_DATABASE = ("--db", *_DATABASE)
_FEW = ("--family", "sum2d", *_TO_DATABASE)  # of all primitives a run would take half a minute
_QUANTISE = ("quantise", "small.onnx", "--inputs", "samples", "--mixtures", "0", "--point", "1", "-o", "q.onnx")
_TUNE = ("tune", "small.onnx", "--runner", "simulate", "--board", "rk3588", "--core", "cortex-a55", *_FEW)
_SERVE = ("farm", "serve", "--port", "0", "--json", "--token", "{first}/token.pem")

SCENARIOS: Mapping[str, Scenario] = {
    "build of a program": Scenario(_PROGRAM, _code),
    "build without a cache": Scenario(_PROGRAM, _code, cold=True),
    "build of a model": Scenario(_MODEL, _models),
    # Where it cannot, the compiler's object stays; 127 is a shell's status, too, where a compiler cannot be run.
    "launch": Scenario(("launch", *_GCC), _project, plainly=_GCC, refusals=(127,)),
    "launch of a first file": Scenario(("launch", *_GCC), _project, cold=True, plainly=_GCC, refusals=(127,)),
    # The second run of each failure, without one, is that of the process that the first has left.
    "launch that leaves a process": Scenario(
        ("launch", *_GCC), _project, cold=True, plainly=_GCC, refusals=(127,), stand_in=_leave_resident
    ),
    "quantise": Scenario(_QUANTISE, _samples),
    "app build": Scenario(("app", "build", "app.toml", "--board", "host", "-o", "libapp.so"), _models),
    "accel build": Scenario(("accel", "build", "small.onnx", "--target", "small", "-o", "net.elf"), _models),
    "tune": Scenario(_TUNE, _models, grows=_DATABASE),
    "auto": Scenario(("auto",), _profile_and_code),
    "tune on a fleet": Scenario(
        ("tune", "small.onnx", "--runner", "fleet:fleet.toml", *_FEW),
        _fleet,
        environment={"MAVCG_PROFILES": "{work}/profiles", "BOARD_FOLDER": "{work}"},
        stand_in=_measure_nothing,
        grows=_DATABASE,
        passing=("calls", "jobs"),
    ),
    "farm serve": Scenario((*_SERVE[:-1], "token.pem"), _code, serves=True, passing=("token.pem",)),
    "farm join": Scenario(
        ("farm", "join", "{address}", "--threads", "1", "--token", "token.pem", "--json"),
        _token,
        helpers=(_SERVE,),
        serves=True,
    ),
    "build on a farm": Scenario(
        ("build", "dense.onnx", "--boards", "rk3588", "--shape", "x=4x64", "--workers", "{address}", "-o", "libraries"),
        _token,
        helpers=(_SERVE, ("farm", "join", "{address}", "--threads", "1", "--token", "{first}/token.pem", "--json")),
        environment={"MAVCG_FARM_TOKEN": "{work}/token.pem"},
    ),
}
