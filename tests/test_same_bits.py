"""scripts/same_bits.sh: equal code gives equal records; a difference is named and is a failure."""

import json
import subprocess
from pathlib import Path

import pytest

from scripts.floors import ROOT
from scripts.gate_networks import NETWORKS
from scripts.same_bits import DUMP, PROGRAMS, differences, digests, jobs

SCRIPT = str(ROOT / "scripts/same_bits.sh")


def test_there_are_four_programs_and_eight_networks_for_four_machines() -> None:
    assert (len(PROGRAMS), len(NETWORKS), len(list(jobs()))) == (4, 8, 48)
    assert len({job.name for job in jobs()}) == 48


@pytest.mark.long
def test_equal_code_gives_equal_records_and_a_difference_fails(tmp_path: Path) -> None:
    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        only = ("--only", "recurrent for generic")
        return subprocess.run([SCRIPT, *arguments, *only], capture_output=True, text=True, cwd=tmp_path)

    first = run("before.json")
    assert first.returncode == 0, first.stderr
    second = run("after.json", "--against", "before.json")
    assert (second.returncode, second.stderr.count("recurrent")) == (0, 1), second.stdout
    record = json.loads((tmp_path / "before.json").read_text())
    files = record["digests"]["recurrent for generic"]
    assert {DUMP, "librecurrent.so", "recurrent.h"} <= files.keys()

    files["librecurrent.so"] = "another"
    (tmp_path / "before.json").write_text(json.dumps(record))
    third = run("after.json", "--against", "before.json")
    assert (third.returncode, third.stdout) == (1, "recurrent for generic: librecurrent.so\n")


def test_what_one_record_lacks_differs() -> None:
    assert differences({"a": {"x": "1", "y": "2"}, "b": {"z": "3"}}, {"a": {"x": "1", "y": "0"}}) == ["a: y", "b: z"]


def test_a_pattern_that_names_no_job_is_refused(tmp_path: Path) -> None:
    done = subprocess.run([SCRIPT, str(tmp_path / "x.json"), "--only", "no"], capture_output=True, text=True)
    assert done.returncode == 1 and "no job has such a name" in done.stderr
    assert not (tmp_path / "x.json").exists()


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "name", ["assembly", "launch", *(pytest.param(name, marks=pytest.mark.long) for name in ("c", "c++"))]
)
def test_what_is_built_does_not_depend_on_the_folder(name: str, tmp_path: Path) -> None:
    job = next(job for job in jobs() if job.name == f"{name} for generic")

    here, there = (digests(job, tmp_path / folder, {}) for folder in ("here", "a/longer/path"))
    assert here == there
