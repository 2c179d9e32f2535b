"""The command line as a whole: help, version, exit codes, what is imported when, arguments that make no sense."""

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mavcg as package
from mavcg.cli.app import run
from mavcg.errors import MavcgError
from tests.conftest import examples

VERBS = (
    "init",
    "profile",
    "build",
    "auto",
    "inspect",
    "run",
    "bench",
    "estimate",
    "simulate",
    "plan",
    "explore",
    "primitives",
    "calibrate",
    "tune",
    "select",
    "quantise",
    "explain",
    "tune-asm",
    "measure",
    "memory",
    "cores",
    "runtime",
    "launch",
    "app",
    "blas",
    "farm",
    "accel",
)
HEAVY = {"pandas", "numpy", "llvmlite", "llvmlite.binding", "matplotlib", "elftools", "mavcg.program.build_values"}


def imported_by(*arguments: str) -> set[str]:
    command = [sys.executable, "-X", "importtime", "-m", "mavcg.cli", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-500:]
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}


def test_help_lists_every_verb(mavcg: Any) -> None:
    for option in ("--help", "-h"):
        ended = mavcg(option)
        assert (ended.status, ended.stderr) == (0, "")
        listed = [line.split()[0] for line in ended.stdout.partition("Commands:")[2].splitlines() if line.strip()]
        assert listed == list(VERBS)


def test_no_arguments_show_the_help(mavcg: Any) -> None:
    ended = mavcg()
    assert ended.status == 2 and "Commands:" in ended.stdout + ended.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_each_verbs_help_has_examples(mavcg: Any, verb: str) -> None:
    ended = mavcg(verb, "--help")
    assert (ended.status, ended.stderr) == (0, "")
    assert ended.stdout.casefold().startswith("usage: mavcg ")
    assert re.search(rf"^ *(\w+=\S+ )?mavcg {verb}( |$)|=\"mavcg {verb} ", ended.stdout, re.MULTILINE)


def test_version(mavcg: Any) -> None:
    ended = mavcg("--version")
    assert (ended.status, ended.stdout) == (0, f"mavcg {package.__version__}\n")


@pytest.mark.parametrize("arguments", [["nonsense"], ["--nonsense"], ["build", "--nonsense"], ["build", "--cores"]])
def test_unknown_words_end_with_status_2_and_no_output(mavcg: Any, here: Path, arguments: list[str]) -> None:
    ended = mavcg(*arguments)
    assert ended.status == 2 and ended.stdout == ""
    assert "Error: " in ended.stderr and "pytest" not in ended.stderr


def test_help_imports_nothing_heavy() -> None:
    assert not imported_by("--help") & HEAVY
    assert not imported_by("build", "--help") & HEAVY


def test_a_verb_imports_the_commands_of_no_other() -> None:
    code = "import sys; from mavcg.cli.app import run; run(['farm', '--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    commands = {name for name in done.stdout.split() if name.startswith("mavcg.cli.") or ".commands." in name}
    assert commands == {"mavcg.cli.app", "mavcg.cli.verbs", "mavcg.lab.commands.farm"}


def test_an_error_is_one_line_and_exit_code_2(mavcg: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise MavcgError("place: what; way out")

    monkeypatch.setattr("mavcg.objects.inspection.model_of", fail)
    ended = mavcg("inspect", "x.so")
    assert (ended.status, ended.stdout, ended.stderr) == (2, "", "mavcg: place: what; way out\n")

    monkeypatch.setenv("MAVCG_DEBUG", "1")
    with pytest.raises(MavcgError):
        mavcg("inspect", "x.so")


def test_what_the_system_refuses_is_no_traceback(mavcg: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise OSError(28, "No space left on device", "/tmp/x.o")

    monkeypatch.setattr("mavcg.objects.inspection.model_of", fail)
    ended = mavcg("inspect", "x.so")
    assert ended.status == 2
    assert ended.stderr == "mavcg: /tmp/x.o: No space left on device; make room\n"


def test_a_lack_of_memory_is_no_traceback(mavcg: Any, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, most_bytes: int) -> bytes:
        raise MemoryError

    monkeypatch.setattr("mavcg.importers.tflite_parse.read_bounded", fail)
    (here / "net.tflite").write_bytes(b"\x1c\0\0\0TFL3")
    ended = mavcg("estimate", "net.tflite", "--board", "rk3588")
    assert ended.status == 2
    assert ended.stderr == (
        "mavcg: more memory is needed than the system gives; end other programs, or take a smaller input\n"
    )


def test_a_fault_of_ours_is_exit_code_1() -> None:
    code = "import mavcg.profiles.load as i; i.load_cores = lambda *_: 1 / 0; from mavcg.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "cores", "cortex-a55"], capture_output=True, text=True)
    assert done.returncode == 1 and "ZeroDivisionError" in done.stderr


@pytest.mark.sample(1)
@pytest.mark.parametrize("verb", ["cores", "cores --json", "--version"])
def test_a_reader_that_goes_away_is_no_error(verb: str) -> None:
    command = f"{sys.executable} -m mavcg.cli {verb} | {'head -1' if 'cores' in verb else 'true'}"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""


_WORDS = st.sampled_from(
    "build inspect measure cores launch tune-asm --core --set --json --cores --hot --board --source --ir -o --output "
    "--target --threshold --min-gain --max-growth --profile --measurements --compile-commands --flag --config --strict "
    "--jobs --runs "
    "--only-hot --rounding --help --version -- - . / k.c mavcg.toml lib.so haswell cortex-a55 generic exynos9820 0 -1 "
    "nan 5 dot * , x86_64-linux-gnu check".split()
) | st.text(max_size=6).filter(lambda word: "\0" not in word)


@settings(max_examples=examples(80, 8))
@given(
    verb=st.sampled_from(
        ["build", "build", "auto", "inspect", "estimate", "explain", "tune-asm", "measure", "cores", "launch"]
    ),
    words=st.lists(_WORDS, max_size=7),
)
def test_any_arguments_end_in_order(here: Path, verb: str, words: list[str]) -> None:
    """Nothing raises; what is refused says so on stderr, with nothing on stdout."""
    if verb == "launch":  # whose words are a command to run
        words = [*words, "true"] if all(word.startswith("-") for word in words) else ["true", *words]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run([verb, *words])
    assert status in (0, 2)
    if status == 2:
        assert err.getvalue() and out.getvalue() == ""


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("words", "status"), [("cores --json >&-", 0), ("cores >&- 2>&-", 0), ("primitives nope >&- 2>&- <&-", 2)]
)
def test_closed_streams_are_no_fault(words: str, status: int) -> None:
    done = subprocess.run(["bash", "-c", f"{sys.executable} -m mavcg.cli {words}"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", "")
