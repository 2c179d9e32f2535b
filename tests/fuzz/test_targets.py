"""Each fuzz target takes its committed corpus; the fuzzer itself runs for a short time in `make test-long`."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bench.record import facts
from fuzz.recorded import Ran, record
from fuzz.run import c_targets, ran
from fuzz.targets import NAMES, call_target
from mavcg.accelerators.host.runtime import DeviceProgram
from mavcg.errors import MavcgError

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "fuzz/corpus"
FILES = sorted(path for name in NAMES for path in (CORPUS / name).iterdir())
SAID = """\
INFO: Seed: 1
#2\tINITED cov: 10 ft: 11 corp: 1/1b exec/s: 0 rss: 54Mb
#400\tDONE   cov: 319 ft: 498 corp: 13/3032b lim: 323 exec/s: 0 rss: 54Mb
"""


# Inputs that every reader refuses, found by the fuzzer or written for a check.
REFUSED = {
    "application_file-long_name",
    "array_file-bad_checksum",
    "array_file-packed",
    "core_file-line_end_in_unit",
    "cost_database-cycles_of_text",
    "fleet_file-line_end_in_board",
    "fleet_file-runner_of_two_lines",
    "worker_answer-fault",
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_corpus(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each input is read by some reader: one of an older version would be refused at every door, and reach nothing."""
    needed = {"onnx_file": "onnx", "tflite_file": "tflite", "caffe_file": "google.protobuf"}
    if path.parent.name in needed:
        pytest.importorskip(needed[path.parent.name])
    target, refusals = importlib.import_module(f"fuzz.targets.{path.parent.name}"), list[str]()

    def call(action: Callable[[], object]) -> None:
        def telling() -> None:
            try:
                action()
                refusals.append("")
            except MavcgError as error:
                refusals.append(str(error))
                raise

        call_target(telling)

    monkeypatch.setattr(target, "call_target", call)
    target.run(path.read_bytes())
    refused = f"{path.parent.name}-{path.name}" in REFUSED
    assert ("" not in refusals) == refused, refusals


def test_the_program_that_the_c_target_begins_with_is_opened(tmp_path: Path) -> None:
    (tmp_path / "program.elf").write_bytes((CORPUS / "accel_program/whole").read_bytes())

    with DeviceProgram(tmp_path / "program.elf") as device:
        device.run({name: np.zeros(shape, np.float32) for name, shape in device.inputs.items()})


def test_every_target_has_a_small_corpus() -> None:
    assert {path.parent.name for path in FILES} == set(NAMES)
    assert {path.name for path in CORPUS.iterdir()} >= set(NAMES)
    assert all(path.stat().st_size <= 16384 for path in FILES)


def test_a_message_of_two_lines_and_another_exception_are_faults() -> None:
    def refuse(error: Exception) -> None:
        raise error

    call_target(lambda: refuse(MavcgError("x.onnx: is empty; name another")))
    for error, kind in ((MavcgError("a\nb"), AssertionError), (KeyError("k"), KeyError)):
        with pytest.raises(kind):
            call_target(lambda error=error: refuse(error))  # type: ignore[misc]


def test_what_libfuzzer_prints_is_read() -> None:
    assert ran("t", "C", 0, SAID, 1.0) == Ran("t", "C", 400, 319, 498, 13, 1.0, "")
    crash = SAID + " === Uncaught Python exception: ===\nKeyError: 'k'\n0x5b,0x6c\nTest unit written to /x/crash-1\n"
    assert ran("t", "Python", 77, crash, 1.0).fault.splitlines() == [
        " === Uncaught Python exception: ===",
        "KeyError: 'k'",
        "Test unit written to /x/crash-1",
        "Test unit written to /x/crash-1",
    ]


def test_a_report_of_the_undefined_behaviour_sanitizer_is_the_fault() -> None:
    said = (
        SAID
        + "engine.c:65:35: runtime error: applying zero offset to null pointer\nSUMMARY: UndefinedBehaviorSanitizer\n"
    )
    fault = "engine.c:65:35: runtime error: applying zero offset to null pointer"
    assert ran("t", "C", 1, said, 1.0).fault.splitlines()[0] == fault


def test_executions_of_runs_add_up_and_faults_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.record.ROWS", tmp_path / "rows")
    monkeypatch.setattr("bench.record.RESULTS", tmp_path)
    monkeypatch.setattr("fuzz.recorded.RESULTS", tmp_path)
    today = {"date": "2026-01-01 10:00 UTC", "commit": "aaa"}
    monkeypatch.setattr("fuzz.recorded.facts", lambda kind, command: facts(kind, command) | today)
    for name, edges in (("onnx_file", 10), ("chunks", 20), ("fleet_file", 30), ("onnx_file", 40)):
        language = "C" if name == "chunks" else "Python"
        record([Ran(name, language, 7, edges, 8, 9, 1.0, "", 50, 100)], "the command")
    today["commit"] = "bbb"
    said = "ERROR: AddressSanitizer: heap-use-after-free | on 0x1\n#0 f"
    record([Ran("onnx_file", "Python", 5, 44, 8, 9, 1.0, "Uncaught Python exception: ===\nKeyError: 'k'\nx")], "c")
    record([Ran("chunks", "C", 5, 44, 8, 9, 1.0, said), Ran("fleet_file", "Python", 1, 3, 8, 9, 1.0, "")], "c")
    targets, runs = (part["rows"] for part in json.loads((tmp_path / "fuzz_targets.json").read_text())["parts"][1:])
    assert targets == [
        ["fleet_file", "8", "3", "-", "9", "0"],
        ["onnx_file", "19", "44", "-", "9", "1"],
        ["all targets", "27", "", "", "", "1"],
    ]
    assert runs == [["2026-01-01", "bbb", "6", "onnx_file: KeyError: 'k'"], ["2026-01-01", "aaa", "21", "0"]]
    targets, runs = (part["rows"] for part in json.loads((tmp_path / "fuzz_c_targets.json").read_text())["parts"][1:])
    assert targets[0] == ["chunks", "12", "44", "-", "9", "1"]
    assert runs[0][2:] == ["5", "chunks: ERROR: AddressSanitizer: heap-use-after-free \\| on 0x1"]


def test_c_targets_of_a_commit_are_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.run.FOLDER", tmp_path)
    monkeypatch.setattr("fuzz.run.BUILD", tmp_path / "build")
    (tmp_path / "c").mkdir()
    (tmp_path / "c/build.sh").write_text(f"echo >>{tmp_path}/log && : >$1/made && chmod +x $1/made && exit $FAILS")
    for state, fails, builds in (
        ("a", 1, 1),
        ("a", 0, 2),
        ("a", 1, 2),
        ("b-dirty", 0, 3),
        ("b-dirty", 0, 4),
        ("a", 0, 5),
    ):
        monkeypatch.setattr("fuzz.run.commit", lambda state=state: state)
        monkeypatch.setenv("FAILS", str(fails))
        try:
            assert [path.name for path in c_targets(())] == ["made"]
        except SystemExit as error:
            assert "status 1" in str(error) and builds == 1
        assert (tmp_path / "log").read_text().count("\n") == builds


def test_a_name_that_is_no_target_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fuzz.run", "no_such_target"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 1 and "targets are" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.long
def test_a_short_run_of_all_targets() -> None:
    pytest.importorskip("atheris")
    done = subprocess.run(
        ["make", "-s", "fuzz", "FUZZ_SECONDS=140"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MFLAGS")},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"{name}: " in done.stdout for name in NAMES)
